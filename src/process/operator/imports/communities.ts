import { newChannel } from "../../../actors/communities/channel-list.ts"
import type { Snowflake } from "../../../contract/core/fields.ts"
import { limits } from "../../../contract/core/limits.ts"
import { maskOf } from "../../../domain/core/permission-masks.ts"
import { everyoneRole } from "../../../domain/communities/servers.ts"
import { grantedAtCreation } from "../../../domain/core/permissions.ts"
import { secondsOf, shardOf } from "../../../domain/core/snowflake.ts"
import { emojiName } from "../../../domain/communities/emojis.ts"
import { insertChannel } from "../../../storage/communities/channels.ts"
import { insertEmoji } from "../../../storage/communities/emojis.ts"
import { putOverride } from "../../../storage/communities/overrides.ts"
import { insertRole, insertServer } from "../../../storage/communities/servers.ts"
import { serverFile } from "../../../storage/core/blobs.ts"
import type { Write } from "../../../storage/core/write.ts"
import type { ImportedItem } from "../../../storage/imports.ts"
import { useFile } from "../../../storage/messages/files.ts"
import { insertDirect } from "../../../storage/social/directs.ts"
import { compareIds } from "../../../domain/core/snowflake.ts"
import { Refusal } from "../saying.ts"
import type { Importing } from "./importing.ts"
import { ownerIn } from "./people.ts"
import type {
  ForeignChannel,
  ForeignDirect,
  ForeignEmoji,
  ForeignRole,
  ForeignServer,
  ForeignUser,
  Outline,
} from "./records.ts"
import { roleKey, type Target } from "./state.ts"
import { fitting } from "./usernames.ts"

/** Members of a private channel that it names one by one; more of them have a role. */
const maxNamed = 20
const privateRole = (channel: string) => `private/${channel}`

/** Whether a channel names its members one by one. */
export const namesMembers = ({ only }: Pick<ForeignChannel, "only">): boolean =>
  only !== null && only.length <= maxNamed

/** By user, the roles by which they view private channels. */
export function privateRolesOf(outline: Outline, importing: Importing): Map<string, Snowflake[]> {
  const found = new Map<string, Snowflake[]>()
  for (const channel of outline.channels) {
    const role = importing.state.roles.get(privateRole(channel.id))
    if (role === undefined) continue
    for (const user of channel.only ?? []) found.set(user, [...(found.get(user) ?? []), role])
  }
  return found
}

export async function addServers(importing: Importing, { servers, users }: Outline): Promise<void> {
  const { state, ids, owner, report } = importing
  for (const { id, name } of servers) {
    const owner_id = owner ?? ownerIn(users, id, state)
    if (owner_id === undefined) throw new Refusal(`nobody owns ${name}: name an account with --owner`)
    state.owners.set(id, owner_id)
  }
  const fresh = servers.filter(({ id }) => !state.servers.has(id))
  if (fresh.length === 0) return
  await importing.step(async step => {
    const shards = await step.shards(fresh.length)
    const made = fresh.map((server, i) => serverWrites(server, ids.next(shards[i]!), state.owners.get(server.id)!))
    await step.write(made.flatMap(({ writes }) => writes))
    const items = made.map(({ id }, i): ImportedItem => ({ kind: "server", foreign_id: fresh[i]!.id, own_id: id }))
    await step.note(importing.id, items)
    state.learn(items)
  })
  report.count("servers", fresh.length)
}

function serverWrites({ name: given, description }: ForeignServer, id: Snowflake, owner_id: Snowflake) {
  const short = fitting(given, limits.serverName.max)
  const name = short.length < limits.serverName.min ? `${short} server`.trim() : short
  const server = {
    id,
    name,
    description: description === null ? null : fitting(description, limits.serverDescription),
    icon_url: null,
    owner_id,
    member_count: 0,
    default_channel_id: null,
    verification_level: 0,
    default_message_notifications: 0,
    public: false,
    category: null,
    created_at: secondsOf(id),
  }
  const everyone = { ...everyoneRole(id, grantedAtCreation), server_id: id }
  return { id, writes: [insertServer(server), insertRole(everyone)] as Write[] }
}

/** Roles come with their names and colours, and without any right: nobody has one by an import. */
export async function addRoles(importing: Importing, users: readonly ForeignUser[]): Promise<void> {
  const wanted = new Map<string, { role: ForeignRole; server: string }>()
  for (const { servers } of users)
    for (const [server, roles] of servers)
      for (const role of roles) wanted.set(roleKey(server, role.id), { role, server })
  await addRolesNamed(importing, wanted)
}

/** One for each private channel that has too many members to name them. */
export async function addPrivateRoles(importing: Importing, channels: readonly ForeignChannel[]): Promise<void> {
  const wanted = channels
    .filter(channel => channel.only !== null && !namesMembers(channel))
    .map(
      ({ id, name, server }) =>
        [privateRole(id), { role: { id, name: `Members of ${name}`, color: null, position: 1 }, server }] as const,
    )
  await addRolesNamed(importing, new Map(wanted))
}

async function addRolesNamed(importing: Importing, wanted: ReadonlyMap<string, { role: ForeignRole; server: string }>) {
  const { state, ids, report } = importing
  const fresh = [...wanted].filter(([key]) => !state.roles.has(key))
  if (fresh.length === 0) return
  const free = limits.rolesPerServer - 1 - state.roles.size
  if (fresh.length > free)
    report.skip(`roles above the ${limits.rolesPerServer} that a server has`, undefined, fresh.length - free)
  const coming = fresh.slice(0, Math.max(0, free)).flatMap(([key, { role, server }]) => {
    const server_id = state.servers.get(server)
    return server_id === undefined ? [] : [{ key, role, server_id, id: ids.next(shardOf(server_id)) }]
  })
  if (coming.length === 0) return
  await importing.step(async step => {
    await step.write(
      coming.map(({ role, server_id, id }) =>
        insertRole({
          id,
          server_id,
          name: fitting(role.name, limits.roleName.max) || "role",
          color: /^#[0-9a-f]{6}$/i.test(role.color ?? "") ? role.color! : "#99AAB5",
          position: Math.min(Math.max(1, Math.floor(role.position)), 1_000),
          hoist: false,
          mentionable: false,
          permissions: new Set(),
        }),
      ),
    )
    const items = coming.map(({ key, id }): ImportedItem => ({ kind: "role", foreign_id: key, own_id: id }))
    await step.note(importing.id, items)
    state.learn(items)
  })
  report.count("roles", coming.length)
}

/** Categories, and channels with who may view them, those of a server at a time. */
export async function addChannels(importing: Importing, channels: readonly ForeignChannel[]): Promise<void> {
  const byServer = new Map<string, ForeignChannel[]>()
  for (const channel of channels) {
    const list = byServer.get(channel.server) ?? []
    byServer.set(channel.server, list)
    list.push(channel)
  }
  for (const [server, list] of byServer) await addChannelsOf(importing, server, list)
}

async function addChannelsOf(importing: Importing, server: string, all: readonly ForeignChannel[]): Promise<void> {
  const { state, ids, report } = importing
  const server_id = state.servers.get(server)
  if (server_id === undefined) return
  const shard = shardOf(server_id)
  const nameOf = (category: string) => fitting(category, limits.channelName.max) || "Category"
  const categories = [...new Set(all.flatMap(({ category }) => (category === null ? [] : nameOf(category))))]
  // What is archived comes last, and is left out first.
  const inOrder = all.toSorted((a, b) => Number(a.isArchived) - Number(b.isArchived))
  const most = limits.channelsPerServer - categories.length
  for (const { name } of inOrder.slice(Math.max(0, most)))
    report.skip(`channels above the ${limits.channelsPerServer} that a server has`, name)
  const kept = inOrder.slice(0, Math.max(0, most))
  const [writes, items]: [Write[], ImportedItem[]] = [[], []]
  let named = 0
  const made = (id: Snowflake, name: string, position: number) => ({
    id,
    server_id,
    name: fitting(name, limits.channelName.max) || "channel",
    position,
  })
  for (const [i, category] of categories.entries()) {
    const key = `${server}/${category}`
    if (state.categories.has(key)) continue
    const id = ids.next(shard)
    writes.push(insertChannel(newChannel({ ...made(id, category, i), channel_type: "category" })))
    items.push({ kind: "category", foreign_id: key, own_id: id })
    state.categories.set(key, id)
  }
  for (const [i, channel] of kept.entries()) {
    const known = state.knownChannels.get(channel.id)
    const id = known ?? ids.next(shard)
    state.channels.set(channel.id, { id, server: server_id, shard, pins: 0 })
    if (known !== undefined) continue
    const category_id =
      channel.category === null ? null : (state.categories.get(`${server}/${nameOf(channel.category)}`) ?? null)
    const topic = channel.topic === null ? null : fitting(channel.topic, limits.channelTopic) || null
    const created_at =
      channel.createdMs === null
        ? secondsOf(id)
        : Math.max(0, Math.min(Math.floor(channel.createdMs / 1000), secondsOf(id)))
    writes.push(
      insertChannel(newChannel({ ...made(id, channel.name, categories.length + i), category_id, topic, created_at })),
    )
    items.push({ kind: "channel", foreign_id: channel.id, own_id: id })
    if (channel.only === null) continue
    named += namesMembers(channel) ? channel.only.length : 0
    if (named > limits.overridesPerServer - 2 * limits.channelsPerServer) {
      report.skip("private channels that only the owner sees: too many members are named one by one", channel.name)
      writes.push(...viewedBy(importing, { ...channel, only: [] }, id, server_id))
    } else writes.push(...viewedBy(importing, channel, id, server_id))
  }
  if (items.length === 0) return
  await importing.step(async step => {
    await step.write(writes)
    await step.note(importing.id, items)
  })
  report.count("categories", items.filter(({ kind }) => kind === "category").length)
  report.count("channels", items.filter(({ kind }) => kind === "channel").length)
}

const view = maskOf(["channels.view"])

/** Hides a channel from everyone but those who are named, and administrators. */
function viewedBy({ state }: Importing, channel: ForeignChannel, channel_id: Snowflake, server_id: Snowflake): Write[] {
  const place = { channel_id, server_id }
  const closed = putOverride({ ...place, target_id: server_id, type: "role", allow: 0, deny: view })
  const role = state.roles.get(privateRole(channel.id))
  if (role !== undefined)
    return [closed, putOverride({ ...place, target_id: role, type: "role", allow: view, deny: 0 })]
  if (!namesMembers(channel)) return [closed]
  const members = new Set((channel.only ?? []).flatMap(user => state.users.get(user) ?? []))
  return [
    closed,
    ...[...members].map(user => putOverride({ ...place, target_id: user, type: "member", allow: view, deny: 0 })),
  ]
}

/**
 * Gives conversations their ids. Their rows come when the import is finished: until then nobody has
 * them.
 */
export async function addDirects(importing: Importing, directs: readonly ForeignDirect[]): Promise<void> {
  const { state, ids, report } = importing
  const there = directs.filter(({ users }) => users.every(user => state.users.has(user)))
  report.skip("direct messages with bots, or with people who are in no list", undefined, directs.length - there.length)
  const targetOf = (id: Snowflake): Target => ({ id, server: null, shard: shardOf(id), pins: 0 })
  const fresh = there.filter(({ id }) => !state.knownChannels.has(id))
  await importing.step(async step => {
    const shards = await step.shards(fresh.length)
    const items = fresh.map(({ id }, i): ImportedItem => ({
      kind: "direct",
      foreign_id: id,
      own_id: ids.next(shards[i]!),
    }))
    await step.note(importing.id, items)
    state.learn(items)
  })
  for (const { id } of there) state.channels.set(id, targetOf(state.knownChannels.get(id)!))
  report.count("direct conversations", fresh.length)
}

export const directRows = ({ state }: Importing, directs: readonly ForeignDirect[]): Write[] =>
  directs.flatMap(({ id, users: [one, other] }) => {
    const [target, mine, theirs] = [
      state.channels.get(id),
      state.users.get(one),
      other === undefined ? null : state.users.get(other),
    ]
    if (!target || mine === undefined || theirs === undefined) return []
    const [user_id, other_id] =
      theirs === null ? [mine, null] : compareIds(mine, theirs) < 0 ? [mine, theirs] : [theirs, mine]
    return [
      insertDirect({
        id: target.id,
        channel_type: other_id === null ? "notes" : "dm",
        user_id,
        other_id,
        created_at: secondsOf(target.id),
      }),
    ]
  })

/** An emoji of a server, with its picture. */
export async function addEmoji(importing: Importing, emoji: ForeignEmoji, server: string): Promise<void> {
  const { state, ids, report, files, nowS } = importing
  const server_id = state.servers.get(server)
  if (server_id === undefined || state.emojis.has(emoji.name)) return
  const name = emojiName(emoji.name)
  if (name === undefined) return report.skip("emoji whose names are not taken here", emoji.name)
  const file = await files.emoji(emoji.file, server_id)
  if (!file) return
  const kind = `${server}/${file.animated ? "animated" : "static"}`
  if ((state.emojiCounts.get(kind) ?? 0) >= limits.emojisPerServer)
    return report.skip(`emoji above the ${limits.emojisPerServer} of a kind that a server has`, emoji.name)
  const id = ids.next(shardOf(server_id))
  await importing.step(async step => {
    const row = { id, server_id, name, created_by: state.owners.get(server)!, created_at: nowS() * 1000, ...file }
    await step.write([insertEmoji(row), useFile({ key: serverFile(server_id, file.file) })])
    const item = { kind: "emoji", foreign_id: `${kind}/${emoji.name}`, own_id: id } as const
    await step.note(importing.id, [item])
    state.learn([item])
  })
  report.count("emoji")
}
