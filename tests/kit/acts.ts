import type { Routes } from "../../src/contract/contract.ts"
import type { Permission } from "../../src/contract/permissions.ts"
import { grantedAtCreation } from "../../src/domain/permissions.ts"
import type { Random } from "../chaos/random.ts"
import type { Cluster, Worker } from "./cluster.ts"
import type { Listener, Person, Starling } from "./person.ts"
import { expect } from "./test.ts"
import { until } from "./until.ts"

interface Post {
  readonly channel_id: string
  readonly message_id: string
  readonly author: Person
}

interface Home {
  readonly id: string
  readonly owner: Person
  readonly members: Person[]
  readonly banned: Person[]
  readonly channels: string[]
  readonly roles: string[]
  readonly invites: string[]
  readonly posts: Post[]
  readonly overrides: { channel_id: string; target_id: string }[]
}

/** People and what they have made so far, as far as the answers told. Much of it happens at once, so some of it is over already. */
export class World {
  readonly cluster: Cluster
  readonly random: Random
  readonly people: Person[]
  readonly servers: Home[] = []
  /** More sessions of those people, to be ended. */
  readonly signedIn: { readonly person: Person; readonly client: Listener }[] = []
  #texts = 0

  constructor(cluster: Cluster, random: Random, people: Person[]) {
    this.cluster = cluster
    this.random = random
    this.people = people
  }

  worker(): Worker {
    return this.random.pick(this.cluster.workers)
  }
  rest(person: Person): Starling {
    return person.on(this.worker())
  }
  text(what: string): string {
    return `${what} ${++this.#texts}`
  }
  /** What somebody has written in a server until now is deleted by a job. */
  async deleted(server: string, author: string): Promise<void> {
    const { sql } = this.cluster
    const rows = await sql<{ id: string }[]>`
      SELECT id FROM messages WHERE server_id = ${server} AND author_id = ${author} AND NOT deleted`
    const ids = rows.map(({ id }) => id)
    const left = () => sql`SELECT FROM messages WHERE id = ANY(${ids}::bigint[]) AND NOT deleted LIMIT 1`
    await until("the job has deleted them", async () => (await left()).length === 0, { patience: 30_000, every: 20 })
  }
  /** Mostly the owner, who may; else anybody, who may or may not. */
  actor({ owner, members }: Home): Starling {
    return this.rest(this.random.next() < 0.7 ? owner : (this.random.pick(members) ?? owner))
  }
}

/** @returns false if there was nothing to do it with */
export type Act = (world: World) => Promise<unknown>

const view: Permission[] = ["channels.view"]
/** Everybody may always read and send: what he may view he may read. */
const ground = Object.fromEntries([...grantedAtCreation].map(name => [name, true]))
const powers: readonly (readonly Permission[])[] = [
  ["members.ban"],
  ["members.ban", "members.kick"],
  ["roles.manage", "channels.manage"],
  ["messages.manage"],
  ["channels.view"],
  ["administrator"],
]
const permissionsOf = (random: Random) => Object.fromEntries(random.pick(powers).map(name => [name, true]))

/** Does something in a server that somebody has made. */
const inServer =
  (act: (world: World, server: Home) => Promise<unknown>): Act =>
  async world => {
    const server = world.random.pick(world.servers)
    return server ? act(world, server) : false
  }

/** Somebody does something to another. Few are drawn from, so that they meet again. */
const between =
  (act: (rest: Starling, other: string, world: World) => Promise<unknown>): Act =>
  async world => {
    const few = world.people.slice(0, 4)
    const one = world.random.pick(few)
    const other = world.random.pick(few.filter(person => person !== one))
    return other ? act(world.rest(one), other.id, world) : false
  }

const remove = <T>(list: T[], one: T): void => {
  const at = list.indexOf(one)
  if (at >= 0) list.splice(at, 1)
}

/** What people do, by the route that does it. Refusals are part of it. */
export const acts: { readonly [Name in keyof Routes]?: Act } = {
  async register(world) {
    world.people.push(await world.cluster.person("late", world.worker()))
  },
  async login(world) {
    const person = await world.random.pick(world.people).signIn(world.worker())
    world.signedIn.push({ person, client: await person.listen(world.worker()) })
  },
  async logout(world) {
    const session = world.signedIn.pop()
    if (!session) return false
    await world.rest(session.person).logout()
    expect((await session.client.ended()).code).toBe(4004)
    return true
  },
  async updatePresence(world) {
    const { random } = world
    const status = random.pick(["online", "idle", "dnd", "invisible"] as const)
    await world.rest(random.pick(world.people)).updatePresence({ status, custom_status: world.text("mood") })
  },
  async createServer(world) {
    if (world.servers.length >= 5) return false
    const owner = world.random.pick(world.people)
    const rest = world.rest(owner)
    const { id } = await rest.createServer({ name: world.text("Server") })
    const [channel] = await rest.listChannels({ server_id: id })
    const { code } = await rest.createInvite({ channel_id: channel!.id, max_age: 0 })
    world.servers.push({
      id,
      owner,
      members: [],
      banned: [],
      channels: [channel!.id],
      roles: [],
      invites: [code],
      posts: [],
      overrides: [],
    })
    return true
  },
  deleteServer: inServer(async (world, server) => {
    if (world.servers.length < 3) return false
    remove(world.servers, server)
    return world.rest(server.owner).deleteServer({ server_id: server.id })
  }),
  leaveServer: inServer(async (world, server) => {
    const member = world.random.pick(server.members)
    if (!member) return false
    remove(server.members, member)
    return world.rest(member).leaveServer({ server_id: server.id })
  }),
  joinByInvite: inServer(async (world, server) => {
    const strangers = world.people.filter(one => one !== server.owner && !server.members.includes(one))
    const stranger = world.random.pick(strangers)
    if (!stranger) return false
    await world.rest(stranger).joinByInvite({ invite_code: world.random.pick(server.invites) })
    server.members.push(stranger)
    return true
  }),
  createInvite: inServer(async (world, server) => {
    const { code } = await world.actor(server).createInvite({ channel_id: world.random.pick(server.channels) })
    server.invites.push(code)
  }),
  kickMember: inServer(async (world, server) => {
    const member = world.random.pick(server.members)
    if (!member) return false
    await world.actor(server).kickMember({ server_id: server.id, member_id: member.id })
    remove(server.members, member)
    return true
  }),
  banUser: inServer(async (world, server) => {
    const authors = server.posts.map(({ author }) => author)
    const target = world.random.pick([...world.people, ...authors].filter(one => one !== server.owner))
    const isAgain = server.banned.includes(target)
    const days = isAgain || world.random.next() < 0.3 ? 0 : 1
    const ban = { server_id: server.id, user_id: target.id, reason: world.text("because"), delete_message_days: days }
    await world.actor(server).banUser(ban)
    remove(server.members, target)
    if (days > 0) await world.deleted(server.id, target.id)
    server.banned.push(target)
  }),
  unbanUser: inServer(async (world, server) => {
    const target = world.random.pick(server.banned)
    if (!target) return false
    remove(server.banned, target)
    return world.actor(server).unbanUser({ server_id: server.id, user_id: target.id })
  }),
  createRole: inServer(async (world, server) => {
    const role = { name: world.text("Role"), permissions: permissionsOf(world.random) }
    const { id } = await world.actor(server).createRole({ server_id: server.id, ...role })
    server.roles.push(id)
  }),
  editRole: inServer(async (world, server) => {
    const { random } = world
    const server_id = server.id
    const role_id = random.pick([...server.roles, server_id])
    // Who sees the channels that say nothing of it themselves.
    if (role_id === server_id)
      return world.actor(server).editRole({
        server_id,
        role_id,
        permissions: { ...ground, "channels.view": random.next() < 0.7 },
      })
    const [isMoved, isGranted] = [random.next() < 0.3, random.next() < 0.6]
    return world.actor(server).editRole({
      server_id,
      role_id,
      name: world.text("Role"),
      ...(isMoved && { position: 1 + random.below(server.roles.length) }),
      ...(isGranted && { permissions: permissionsOf(random) }),
    })
  }),
  deleteRole: inServer(async (world, server) => {
    const role_id = world.random.pick(server.roles)
    if (role_id === undefined) return false
    await world.actor(server).deleteRole({ server_id: server.id, role_id })
    remove(server.roles, role_id)
    return true
  }),
  giveRole: inServer(async (world, server) => {
    const [role_id, member] = [world.random.pick(server.roles), world.random.pick(server.members)]
    if (role_id === undefined || !member) return false
    return world.actor(server).giveRole({ server_id: server.id, member_id: member.id, role_id })
  }),
  takeRole: inServer(async (world, server) => {
    const [role_id, member] = [world.random.pick(server.roles), world.random.pick(server.members)]
    if (role_id === undefined || !member) return false
    return world.actor(server).takeRole({ server_id: server.id, member_id: member.id, role_id })
  }),
  createChannel: inServer(async (world, server) => {
    if (server.channels.length >= 8) return false
    const type = world.random.pick(["text", "text", "announcement", "voice", "category"] as const)
    const channel = { name: world.text("channel"), type, topic: world.text("about") }
    const { id } = await world.actor(server).createChannel({ server_id: server.id, ...channel })
    server.channels.push(id)
    return true
  }),
  setOverride: inServer(async (world, server) => {
    const { random } = world
    const member = random.pick(server.members)
    const target = random.pick([
      { target_id: server.id, type: "role" as const },
      ...server.roles.map(target_id => ({ target_id, type: "role" as const })),
      ...(member ? [{ target_id: member.id, type: "member" as const }] : []),
    ])
    const channel_id = random.pick(server.channels)
    const says = random.pick([
      { allow: view, deny: [] },
      { allow: [], deny: view },
      { allow: [], deny: ["messages.send"] },
    ])
    await world.actor(server).setOverride({ channel_id, ...target, ...says })
    server.overrides.push({ channel_id, target_id: target.target_id })
  }),
  deleteOverride: inServer(async (world, server) => {
    const override = world.random.pick(server.overrides)
    if (!override) return false
    remove(server.overrides, override)
    return world.actor(server).deleteOverride(override)
  }),
  startTyping: inServer(async (world, server) =>
    world.actor(server).startTyping({ channel_id: world.random.pick(server.channels) }),
  ),
  createMessage: inServer(async (world, server) => {
    const author = world.random.pick([server.owner, ...server.members])
    const channel_id = world.random.pick(server.channels)
    const { id } = await world.rest(author).createMessage({ channel_id, content: world.text("post") })
    server.posts.push({ channel_id, message_id: id, author })
  }),
  editMessage: inServer(async (world, server) => {
    const post = world.random.pick(server.posts)
    if (!post) return false
    const { author, ...ids } = post
    return world.rest(author).editMessage({ ...ids, content: world.text("edited") })
  }),
  deleteMessage: inServer(async (world, server) => {
    const post = world.random.pick(server.posts)
    if (!post) return false
    const { author, ...ids } = post
    remove(server.posts, post)
    return world.rest(author).deleteMessage(ids)
  }),
  requestFriend: between((rest, user_id, world) =>
    rest.requestFriend({ user_id, ...(world.random.next() < 0.5 && { message: world.text("hello") }) }),
  ),
  acceptFriend: between((rest, user_id) => rest.acceptFriend({ user_id })),
  deleteRelationship: between((rest, user_id) => rest.deleteRelationship({ user_id })),
  blockUser: between((rest, user_id) => rest.blockUser({ user_id })),
}
