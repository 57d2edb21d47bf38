import { generateSync } from "otplib"
import { ApiError } from "../../client/rest.ts"
import { userActor } from "../../src/actors/user.ts"
import type { Routes } from "../../src/contract/contract.ts"
import type { Notification } from "../../src/contract/accounts/notifications.ts"
import type { Permission } from "../../src/contract/core/permissions.ts"
import { grantedAtCreation } from "../../src/domain/core/permissions.ts"
import type { Random } from "../chaos/random.ts"
import type { Cluster, Worker } from "./cluster.ts"
import { emailLinkToken } from "./mailbox.ts"
import { clientAt, type Listener, type Person, type Starling } from "./person.ts"
import { apng, fileOf } from "./pictures.ts"
import { expect } from "./test.ts"
import { until } from "./until.ts"

interface Post {
  readonly channel_id: string
  readonly message_id: string
  readonly author: Person
}

interface Home {
  readonly id: string
  owner: Person
  readonly members: Person[]
  readonly banned: Person[]
  readonly channels: string[]
  readonly roles: string[]
  readonly invites: string[]
  readonly posts: Post[]
  readonly overrides: { channel_id: string; target_id: string }[]
  readonly webhooks: { webhook_id: string; token: string }[]
  readonly automodRules: string[]
  readonly emojis: string[]
  readonly stickers: string[]
  readonly polls: { poll_id: string; author: Person; options: string[] }[]
}

interface Guarded {
  readonly person: Person
  readonly secret: string
  readonly codes: string[]
  isOn: boolean
}

/** People and what they have made so far, as far as the answers told. Much of it happens at once, so some of it is over already. */
export class World {
  readonly cluster: Cluster
  readonly random: Random
  readonly people: Person[]
  readonly servers: Home[] = []
  /** More sessions of those people, to be ended. */
  readonly signedIn: { readonly person: Person; readonly client: Listener }[] = []
  /** Accounts of nobody else, with a second factor that is being set up or is on. */
  readonly guarded: Guarded[] = []
  #texts = 0
  #chiefs: Promise<{ administrator: Person; ward: Person }> | undefined

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
  /** Somebody with every permission of the service, and somebody whose tier and badges they change; they meet nobody else. */
  chiefs(): Promise<{ administrator: Person; ward: Person }> {
    return (this.#chiefs ??= (async () => {
      const [administrator, ward] = [await this.cluster.person("chief"), await this.cluster.person("ward")]
      await this.cluster.sql`UPDATE users SET permissions = '{administrator}' WHERE id = ${administrator.id}`
      return { administrator, ward }
    })())
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
    await until("the job has deleted them", async () => (await left()).length === 0, { timeoutMs: 30_000, everyMs: 20 })
  }
  /** Mostly the owner, who may; else anybody, who may or may not. */
  actor({ owner, members }: Home): Starling {
    return this.rest(this.random.next() < 0.7 ? owner : (this.random.pick(members) ?? owner))
  }
}

/** @returns false if there was nothing to do it with */
export type Act = (world: World) => Promise<unknown>

const view: Permission[] = ["channels.view"]
/** Everybody may always read and send: what they may view they may read. */
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

/** Good for an emoji, a sticker and an icon. */
const picture = fileOf(apng())

/** Does something in a server that somebody has made. */
const inServer =
  (act: (world: World, server: Home) => Promise<unknown>): Act =>
  async world => {
    const server = world.random.pick(world.servers)
    return server ? act(world, server) : false
  }

/** Does something about a message. */
const onPost = (
  act: (world: World, server: Home, ids: { channel_id: string; message_id: string }) => Promise<unknown>,
): Act =>
  inServer(async (world, server) => {
    const post = world.random.pick(server.posts)
    return post ? act(world, server, { channel_id: post.channel_id, message_id: post.message_id }) : false
  })
/** Does something with a bot that the owner of a server has added to it. It leaves, and goes. */
const withBot = (act: (owner: Starling, bot_id: string, world: World) => Promise<unknown> = async () => {}): Act =>
  inServer(async (world, server) => {
    const owner = world.rest(server.owner)
    const bot = await owner.createBot({ username: world.cluster.newName("bot"), permissions: ["channels.view"] })
    try {
      await owner.addBot({ server_id: server.id, bot_id: bot.id })
      await act(owner, bot.id, world)
      await owner.kickMember({ server_id: server.id, member_id: bot.id })
    } finally {
      await owner.deleteBot({ bot_id: bot.id })
    }
    return true
  })
const fewEmoji = ({ random }: World): string => random.pick(["👍", "🔥", ":gull:"])

/** Few are drawn from, so that they meet again. */
function twoOf({ people, random }: World): [Person, Person] {
  const few = people.slice(0, 4)
  const one = random.pick(few)
  return [one, random.pick(few.filter(person => person !== one))]
}

/** Somebody does something to another. */
const between =
  (act: (rest: Starling, other: string, world: World) => Promise<unknown>): Act =>
  world => {
    const [one, other] = twoOf(world)
    return act(world.rest(one), other.id, world)
  }

/** What two are to each other may be in the way by now. */
const ifPossible = (done: Promise<unknown>): Promise<unknown> =>
  done.catch((error: unknown) => {
    if (!(error instanceof ApiError) || error.status >= 500) throw error
  })

/** What a job does for users who are mentioned. */
export const notify = (
  { node }: Pick<Worker, "node">,
  { id }: Pick<Person, "id">,
  content: string,
  more: Partial<Pick<Notification, "content_preview" | "link" | "sender_id">> = {},
): Promise<Notification> =>
  node.ask(userActor, id, {
    type: "notify",
    of: {
      type: "mention",
      title: "You were mentioned",
      content,
      content_preview: null,
      link: null,
      sender_id: null,
      ...more,
    },
  }) as Promise<Notification>

const remove = <T>(list: T[], one: T): void => {
  const at = list.indexOf(one)
  if (at >= 0) list.splice(at, 1)
}

/** One more session of somebody's, with a connection. */
async function signIn(world: World) {
  const person = await world.random.pick(world.people).signIn(world.worker())
  return { person, client: await person.listen(world.worker()) }
}

async function setUp(world: World): Promise<Guarded> {
  const person = await world.cluster.person("guarded", world.worker())
  const { secret, backup_codes } = await world.rest(person).enableTwoFactor({ password: person.password })
  return { person, secret, codes: backup_codes, isOn: false }
}

async function switchOn(world: World, one: Guarded): Promise<void> {
  one.isOn = true
  await world.rest(one.person).confirmTwoFactor({ code: generateSync({ secret: one.secret }) })
  if (!world.guarded.includes(one)) world.guarded.push(one)
}

/** Somebody whose second factor is on, with a backup code left. */
async function guarded(world: World): Promise<Guarded> {
  const known = world.guarded.find(({ isOn, codes }) => isOn && codes.length > 0)
  if (known) return known
  const one = await setUp(world)
  await switchOn(world, one)
  return one
}

async function newWebhook(world: World, server: Home) {
  const channel_id = world.random.pick(server.channels)
  const { id, token } = await world.rest(server.owner).createWebhook({ channel_id, name: world.text("hook") })
  const webhook = { webhook_id: id, token: token! }
  server.webhooks.push(webhook)
  return webhook
}

async function newEmoji(world: World, server: Home): Promise<string> {
  const name = world.text("emoji").replace(" ", "_")
  const { id } = await world.actor(server).createEmoji({ server_id: server.id, name, image: picture })
  server.emojis.push(id)
  return id
}

async function newSticker(world: World, server: Home): Promise<string> {
  const name = world.text("Sticker")
  const { id } = await world.actor(server).createSticker({ server_id: server.id, name, image: picture })
  server.stickers.push(id)
  return id
}

/** Nothing that anybody writes breaks it. */
const newAutomodRule = (world: World, server: Home) =>
  world.rest(server.owner).createAutomodRule({
    server_id: server.id,
    name: world.text("rule"),
    rule_type: "keyword",
    config: { keywords: ["unspeakable"] },
    actions: [{ action_type: "delete_message" }],
  })

/** Does something with a webhook of a server. */
const withWebhook = (
  act: (rest: Starling, webhook: Home["webhooks"][number], world: World, server: Home) => Promise<unknown>,
): Act =>
  inServer(async (world, server) => {
    const webhook = world.random.pick(server.webhooks) ?? (await newWebhook(world, server))
    return act(world.rest(server.owner), webhook, world, server)
  })

const tea = { question: "Tea?", options: ["Yes", "No"] }

/** With a message of its own, where no other one is left to have it. */
async function newPoll(world: World, server: Home): Promise<Home["polls"][number]> {
  const author = world.random.pick([server.owner, ...server.members])
  const channel_id = world.random.pick(server.channels)
  const { id, poll } = await world.rest(author).createMessage({ channel_id, content: world.text("poll"), poll: tea })
  server.posts.push({ channel_id, message_id: id, author })
  const begun = { poll_id: poll!.id, author, options: poll!.options.map(option => option.id) }
  server.polls.push(begun)
  return begun
}

/** Does something with a poll of a server. */
const withPoll = (act: (world: World, poll: Home["polls"][number], server: Home) => Promise<unknown>): Act =>
  inServer(async (world, server) =>
    act(world, world.random.pick(server.polls) ?? (await newPoll(world, server)), server),
  )

/** What people do, by the route that does it. Refusals are part of it. */
export const acts: { readonly [Name in keyof Routes]?: Act } = {
  async register(world) {
    world.people.push(await world.cluster.person("late", world.worker()))
  },
  async login(world) {
    world.signedIn.push(await signIn(world))
  },
  async logout(world) {
    const session = world.signedIn.pop()
    if (!session) return false
    await world.rest(session.person).logout()
    expect((await session.client.ended()).code).toBe(4004)
    return true
  },
  refresh: world => world.rest(world.random.pick(world.people)).refresh(),
  async revokeSession(world) {
    const session = world.signedIn.pop() ?? (await signIn(world))
    const owner = world.people.find(({ id }) => id === session.person.id)!
    await world.rest(owner).revokeSession({ session_id: session.person.token.split(".")[0]! })
    expect((await session.client.ended()).code).toBe(4004)
    return true
  },
  async revokeAllSessions(world) {
    const one = await signIn(world)
    world.signedIn.push(one)
    const owner = world.people.find(({ id }) => id === one.person.id)!
    const others = world.signedIn.filter(({ person }) => person.id === owner.id)
    for (const session of others) remove(world.signedIn, session)
    await world.rest(owner).revokeAllSessions({})
    for (const { client } of others) expect((await client.ended()).code).toBe(4004)
    return true
  },
  async enableTwoFactor(world) {
    world.guarded.push(await setUp(world))
  },
  async confirmTwoFactor(world) {
    const one = world.guarded.find(({ isOn }) => !isOn) ?? (await setUp(world))
    await switchOn(world, one)
  },
  async completeTwoFactor(world) {
    const { person, codes } = await guarded(world)
    const { username, password } = person
    const { challenge_token } = await clientAt(world.worker()).login({ username, password })
    return clientAt(world.worker()).completeTwoFactor({ challenge_token: challenge_token!, code: codes.pop()! })
  },
  async disableTwoFactor(world) {
    const one = await guarded(world)
    remove(world.guarded, one)
    return world.rest(one.person).disableTwoFactor({ password: one.person.password, code: one.codes.pop()! })
  },
  async requestPasswordReset(world) {
    const { email } = world.random.pick(world.people)
    return clientAt(world.worker()).requestPasswordReset({ email })
  },
  async confirmPasswordReset(world) {
    const person = await world.cluster.person("forgetful", world.worker())
    const client = await person.listen(world.worker())
    const token = await emailLinkToken(world.cluster.sql, person, "password_reset")
    await clientAt(world.worker()).confirmPasswordReset({ token, new_password: "Another-Horse-9" })
    expect((await client.ended()).code).toBe(4004)
  },
  async resendVerification(world) {
    const { email } = world.random.pick(world.people)
    return clientAt(world.worker()).resendVerification({ email })
  },
  async verifyEmail(world) {
    const person = await world.cluster.person("verified", world.worker())
    const token = await emailLinkToken(world.cluster.sql, person, "verify_email")
    return clientAt(world.worker()).verifyEmail({ token })
  },
  async restoreEmail(world) {
    const person = await world.cluster.person("restored", world.worker())
    const client = await person.listen(world.worker())
    const token = await emailLinkToken(world.cluster.sql, person, "restore_email")
    await clientAt(world.worker()).restoreEmail({ token })
    expect((await client.ended()).code).toBe(4004)
  },
  // Others would write what they have read of them under their old name, so nobody has read anything of them.
  async editMe(world) {
    const { cluster } = world
    const person = await cluster.person("changing", world.worker())
    const username = cluster.newName("changed")
    return world.rest(person).editMe({ username, email: `${username}@example.com`, current_password: person.password })
  },
  putAvatar: world => world.rest(world.random.pick(world.people)).putAvatar({ file: picture }),
  deleteAvatar: world => world.rest(world.random.pick(world.people)).deleteAvatar(),
  addBot: withBot(),
  deleteBot: withBot(),
  editBot: withBot((owner, bot_id, { cluster }) => owner.editBot({ bot_id, username: cluster.newName("renamed") })),
  putBotAvatar: withBot((owner, bot_id) => owner.putBotAvatar({ bot_id, file: picture })),
  deleteBotAvatar: withBot(async (owner, bot_id) => {
    await owner.putBotAvatar({ bot_id, file: picture })
    await owner.deleteBotAvatar({ bot_id })
  }),
  editMessagingSettings: world =>
    world.rest(world.random.pick(world.people)).editMessagingSettings({
      compact_messages_enabled: world.random.next() < 0.5,
      allow_dms_from: world.random.pick(["everyone", "friends", "none"] as const),
    }),
  putSetting: world =>
    world.rest(world.random.pick(world.people)).putSetting({ key: "theme", value: world.text("theme") }),
  putSettings: world =>
    world.rest(world.random.pick(world.people)).putSettings({ theme: world.text("theme"), size: 3 }),
  async deleteSetting(world) {
    const rest = world.rest(world.random.pick(world.people))
    await rest.putSetting({ key: "doomed", value: "" })
    return rest.deleteSetting({ key: "doomed" })
  },
  async editUserFeatures(world) {
    const { administrator, ward } = await world.chiefs()
    return world.rest(administrator).editUserFeatures({ user_id: ward.id, notes: world.text("note") })
  },
  async setTier(world) {
    const { administrator, ward } = await world.chiefs()
    return world.rest(administrator).setTier({ user_id: ward.id, tier: world.random.pick(["alpha", "premium"]) })
  },
  async addBadge(world) {
    const { administrator, ward } = await world.chiefs()
    return world.rest(administrator).addBadge({ user_id: ward.id, badge: "verified" })
  },
  async removeBadge(world) {
    const { administrator, ward } = await world.chiefs()
    return world.rest(administrator).removeBadge({ user_id: ward.id, badge: "verified" })
  },
  async readNotification(world) {
    const person = world.random.pick(world.people)
    const { id } = await notify(world.worker(), person, world.text("mention"))
    return world.rest(person).readNotification({ notification_id: id })
  },
  async readAllNotifications(world) {
    const person = world.random.pick(world.people)
    await notify(world.worker(), person, world.text("mention"))
    return world.rest(person).readAllNotifications()
  },
  requestExport: world => world.rest(world.random.pick(world.people)).requestExport(),
  async deleteAccount(world) {
    const person = await world.cluster.person("ended", world.worker())
    const client = await person.listen(world.worker())
    await world.rest(person).deleteAccount({ password: person.password })
    expect((await client.ended()).code).toBe(4004)
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
      webhooks: [],
      automodRules: [],
      emojis: [],
      stickers: [],
      polls: [],
    })
    return true
  },
  deleteServer: inServer(async (world, server) => {
    if (world.servers.length < 3) return false
    remove(world.servers, server)
    return world.rest(server.owner).deleteServer({ server_id: server.id })
  }),
  editServer: inServer(async (world, server) => {
    const { random } = world
    const channel = random.pick(server.channels)
    return world.actor(server).editServer({
      server_id: server.id,
      ...(random.next() < 0.5 && { name: world.text("Server") }),
      ...(random.next() < 0.5 && { public: random.next() < 0.5, category: world.text("about") }),
      ...(random.next() < 0.3 && { default_channel_id: random.next() < 0.5 ? "0" : channel }),
    })
  }),
  transferServer: inServer(async (world, server) => {
    const { owner } = server
    const heir = world.random.pick(server.members)
    if (!heir) return false
    const { id: server_id } = server
    await world.rest(owner).transferServer({ server_id, user_id: heir.id, password: owner.password })
    server.owner = heir
    remove(server.members, heir)
    server.members.push(owner)
    return true
  }),
  joinServer: inServer(async (world, server) => {
    const strangers = world.people.filter(one => one !== server.owner && !server.members.includes(one))
    const stranger = world.random.pick(strangers)
    if (!stranger) return false
    await world.rest(server.owner).editServer({ server_id: server.id, public: true })
    await world.rest(stranger).joinServer({ server_id: server.id })
    server.members.push(stranger)
    return true
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
  createEmoji: inServer(async (world, server) => {
    if (server.emojis.length >= 5) return false
    await newEmoji(world, server)
    return true
  }),
  renameEmoji: inServer(async (world, server) => {
    const emoji_id = world.random.pick(server.emojis) ?? (await newEmoji(world, server))
    const name = world.text("renamed").replace(" ", "_")
    return world.actor(server).renameEmoji({ server_id: server.id, emoji_id, name })
  }),
  deleteEmoji: inServer(async (world, server) => {
    const emoji_id = world.random.pick(server.emojis) ?? (await newEmoji(world, server))
    await world.actor(server).deleteEmoji({ server_id: server.id, emoji_id })
    remove(server.emojis, emoji_id)
    return true
  }),
  createSticker: inServer(async (world, server) => {
    if (server.stickers.length >= 5) return false
    await newSticker(world, server)
    return true
  }),
  deleteSticker: inServer(async (world, server) => {
    const sticker_id = world.random.pick(server.stickers) ?? (await newSticker(world, server))
    await world.actor(server).deleteSticker({ sticker_id })
    remove(server.stickers, sticker_id)
    return true
  }),
  sendSticker: inServer(async (world, server) => {
    const post = world.random.pick(server.posts)
    if (!post) return false
    const sticker_id = world.random.pick(server.stickers) ?? (await newSticker(world, server))
    return world.rest(post.author).sendSticker({ sticker_id, message_id: post.message_id })
  }),
  putIcon: inServer(async (world, server) => world.actor(server).putIcon({ server_id: server.id, file: picture })),
  uploadIcon: inServer(async (world, server) =>
    world.actor(server).uploadIcon({ server_id: server.id, file: picture }),
  ),
  deleteIcon: inServer(async (world, server) => world.actor(server).deleteIcon({ server_id: server.id })),
  deleteInvite: inServer(async (world, server) => {
    // The first one lasts: by it others join.
    const made = () => world.actor(server).createInvite({ channel_id: world.random.pick(server.channels) })
    const code = server.invites[1] ?? (await made()).code
    remove(server.invites, code)
    return world.actor(server).deleteInvite({ invite_code: code })
  }),
  editMember: inServer(async (world, server) => {
    const member = world.random.pick(server.members)
    if (!member) return false
    // Who is timed out from one moment to the next would refuse what others do here.
    return world.actor(server).editMember({ server_id: server.id, member_id: member.id, nickname: world.text("Nick") })
  }),
  editOwnMember: inServer(async (world, server) => {
    const member = world.random.pick([server.owner, ...server.members])
    const nickname = world.random.next() < 0.3 ? "" : world.text("Nick")
    return world.rest(member).editOwnMember({ server_id: server.id, nickname })
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
  editChannel: inServer(async (world, server) => {
    const { random } = world
    return world.actor(server).editChannel({
      channel_id: random.pick(server.channels),
      name: world.text("channel"),
      ...(random.next() < 0.4 && { position: random.below(8) }),
      ...(random.next() < 0.4 && { topic: world.text("about") }),
    })
  }),
  reorderChannels: inServer(async (world, server) => {
    const { random } = world
    const moves = server.channels.filter(() => random.next() < 0.5).map(id => ({ id, position: random.below(8) }))
    if (moves.length === 0) return false
    return world.actor(server).reorderChannels({ server_id: server.id, channels: moves })
  }),
  deleteChannel: inServer(async (world, server) => {
    // The first one lasts: by its invite others join.
    const channel_id = server.channels[1]
    if (channel_id === undefined) return false
    await world.actor(server).deleteChannel({ channel_id })
    remove(server.channels, channel_id)
    for (const post of server.posts.filter(one => one.channel_id === channel_id)) remove(server.posts, post)
    return true
  }),
  putServerNotificationSettings: inServer(async (world, server) =>
    world.actor(server).putServerNotificationSettings({ server_id: server.id, muted: world.random.next() < 0.5 }),
  ),
  putChannelNotificationSettings: inServer(async (world, server) => {
    const level = world.random.pick(["all", "mentions", "nothing", "default"] as const)
    return world.actor(server).putChannelNotificationSettings({ channel_id: world.random.pick(server.channels), level })
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
  createWebhook: inServer((world, server) => newWebhook(world, server)),
  editWebhook: withWebhook((rest, { webhook_id }, world) => rest.editWebhook({ webhook_id, name: world.text("hook") })),
  deleteWebhook: withWebhook((rest, webhook, _, server) => {
    remove(server.webhooks, webhook)
    return rest.deleteWebhook({ webhook_id: webhook.webhook_id })
  }),
  regenerateWebhookToken: withWebhook(async (rest, webhook) => {
    const { token } = await rest.regenerateWebhookToken({ webhook_id: webhook.webhook_id })
    webhook.token = token!
  }),
  executeWebhook: withWebhook((_, { webhook_id, token }, world) =>
    clientAt(world.worker()).executeWebhook({
      webhook_id,
      token,
      content: world.text("news"),
      embeds: [{ title: world.text("embed"), color: "#0af" }],
    }),
  ),
  createAutomodRule: inServer(async (world, server) => {
    const { id } = await newAutomodRule(world, server)
    server.automodRules.push(id)
  }),
  editAutomodRule: inServer(async (world, server) => {
    const rule_id = world.random.pick(server.automodRules) ?? (await newAutomodRule(world, server)).id
    return world.rest(server.owner).editAutomodRule({ server_id: server.id, rule_id, name: world.text("rule") })
  }),
  deleteAutomodRule: inServer(async (world, server) => {
    const rule_id = server.automodRules.pop() ?? (await newAutomodRule(world, server)).id
    return world.rest(server.owner).deleteAutomodRule({ server_id: server.id, rule_id })
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
  ackMessages: inServer(async (world, server) => {
    const reader = world.random.pick([server.owner, ...server.members])
    const { channel_id, message_id } = world.random.pick(server.posts) ?? {
      channel_id: world.random.pick(server.channels),
    }
    return world.rest(reader).ackMessages({ channel_id, ...(message_id !== undefined && { message_id }) })
  }),
  ackChannels: inServer((world, server) =>
    world
      .rest(world.random.pick([server.owner, ...server.members]))
      .ackChannels(Object.fromEntries(server.channels.map(channel => [channel, null]))),
  ),
  uploadAttachment: inServer(async (world, server) => {
    const author = world.random.pick([server.owner, ...server.members])
    const channel_id = world.random.pick(server.channels)
    const rest = world.rest(author)
    const upload = await rest.uploadAttachment({ channel_id, file: picture })
    const embeds = [{ title: world.text("embed") }]
    const { id } = await rest.createMessage({ channel_id, attachments: [upload], embeds })
    server.posts.push({ channel_id, message_id: id, author })
  }),
  createPoll: inServer(async (world, server) => {
    const post = world.random.pick(server.posts)
    if (!post) return false
    const { author, message_id } = post
    const poll = await world.rest(author).createPoll({ message_id, ...tea, allow_multiple_choice: true })
    server.polls.push({ poll_id: poll.id, author, options: poll.options.map(({ id }) => id) })
    return true
  }),
  votePoll: withPoll((world, { poll_id, options }, server) =>
    world
      .rest(world.random.pick([server.owner, ...server.members]))
      .votePoll({ poll_id, option_ids: [world.random.pick(options)] }),
  ),
  closePoll: withPoll((world, poll, server) => {
    remove(server.polls, poll)
    return world.rest(poll.author).closePoll({ poll_id: poll.poll_id })
  }),
  deletePoll: withPoll((world, poll, server) => {
    remove(server.polls, poll)
    return world.rest(poll.author).deletePoll({ poll_id: poll.poll_id })
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
  bulkDeleteMessages: inServer(async (world, server) => {
    const posts = server.posts.filter(({ channel_id }) => channel_id === server.posts[0]!.channel_id).slice(0, 2)
    if (posts.length < 2) return false
    for (const post of posts) remove(server.posts, post)
    const messages = posts.map(({ message_id }) => message_id)
    return world.actor(server).bulkDeleteMessages({ channel_id: posts[0]!.channel_id, messages })
  }),
  addReaction: onPost((world, server, ids) =>
    world.rest(world.random.pick([server.owner, ...server.members])).addReaction({ ...ids, emoji: fewEmoji(world) }),
  ),
  removeReaction: onPost((world, server, ids) =>
    world.rest(world.random.pick([server.owner, ...server.members])).removeReaction({ ...ids, emoji: fewEmoji(world) }),
  ),
  pinMessage: onPost((world, server, ids) => world.actor(server).pinMessage(ids)),
  unpinMessage: onPost((world, server, ids) => world.actor(server).unpinMessage(ids)),
  requestFriend: between((rest, user_id, world) =>
    rest.requestFriend({ user_id, ...(world.random.next() < 0.5 && { message: world.text("hello") }) }),
  ),
  async acceptFriend(world) {
    const [one, other] = twoOf(world)
    // Whatever they were, they may make friends.
    if (world.random.next() < 0.5) {
      await ifPossible(world.rest(one).deleteRelationship({ user_id: other.id }))
      await ifPossible(world.rest(other).deleteRelationship({ user_id: one.id }))
      await ifPossible(world.rest(other).requestFriend({ user_id: one.id }))
    }
    return world.rest(one).acceptFriend({ user_id: other.id })
  },
  deleteRelationship: between((rest, user_id) => rest.deleteRelationship({ user_id })),
  blockUser: between((rest, user_id) => rest.blockUser({ user_id })),
  openDirectChannel: between(async (rest, recipient_id, world) => {
    const { id } = await rest.openDirectChannel({ recipient_id })
    return rest.createMessage({ channel_id: id, content: world.text("between us") })
  }),
}
