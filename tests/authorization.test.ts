import { routes } from "../src/contract/contract.ts"
import type { Route } from "../src/contract/registry.ts"
import { refusal } from "./kit/conformance.ts"
import { clientAt, type Starling } from "./kit/person.ts"
import { sharedServer } from "./kit/seeds.ts"
import { expect, test } from "./kit/test.ts"
import type { Cluster } from "./kit/cluster.ts"

type Name = keyof typeof routes
interface Scene {
  server_id: string
  channel_id: string
  voice_id: string
  /** By the owner. */
  message_id: string
  invite_code: string
  /** The owner. */
  user_id: string
  role_id: string
}

/** Everything that needs somebody, with what owner, member and stranger may do; nobody gets 401 everywhere. */
const matrix: {
  [N in Name]?: { call: (rest: Starling, scene: Scene) => Promise<unknown>; owner: string; member: string; stranger: string }
} = {
  getMe: { call: rest => rest.getMe(), owner: "granted", member: "granted", stranger: "granted" },
  getUser: { call: (rest, { user_id }) => rest.getUser({ user_id }), owner: "granted", member: "granted", stranger: "granted" },
  listServers: { call: rest => rest.listServers(), owner: "granted", member: "granted", stranger: "granted" },
  createServer: { call: rest => rest.createServer({ name: "Mine" }), owner: "granted", member: "granted", stranger: "granted" },
  getServer: { call: (rest, { server_id }) => rest.getServer({ server_id }), owner: "granted", member: "granted", stranger: "access_denied" },
  deleteServer: { call: (rest, { server_id }) => rest.deleteServer({ server_id }), owner: "granted", member: "not_owner", stranger: "access_denied" },
  leaveServer: { call: (rest, { server_id }) => rest.leaveServer({ server_id }), owner: "owner_cannot_leave", member: "granted", stranger: "access_denied" },
  listRoles: { call: (rest, { server_id }) => rest.listRoles({ server_id }), owner: "granted", member: "granted", stranger: "access_denied" },
  createRole: { call: (rest, { server_id }) => rest.createRole({ server_id, name: "new" }), owner: "granted", member: "permission_denied", stranger: "access_denied" },
  editRole: { call: (rest, { server_id, role_id }) => rest.editRole({ server_id, role_id, hoist: true }), owner: "granted", member: "permission_denied", stranger: "access_denied" },
  deleteRole: { call: (rest, { server_id, role_id }) => rest.deleteRole({ server_id, role_id }), owner: "granted", member: "permission_denied", stranger: "access_denied" },
  giveRole: { call: (rest, { server_id, role_id, user_id }) => rest.giveRole({ server_id, member_id: user_id, role_id }), owner: "granted", member: "permission_denied", stranger: "access_denied" },
  takeRole: { call: (rest, { server_id, role_id, user_id }) => rest.takeRole({ server_id, member_id: user_id, role_id }), owner: "granted", member: "permission_denied", stranger: "access_denied" },
  kickMember: { call: (rest, { server_id, user_id }) => rest.kickMember({ server_id, member_id: user_id }), owner: "rank_too_low", member: "permission_denied", stranger: "access_denied" },
  listBans: { call: (rest, { server_id }) => rest.listBans({ server_id }), owner: "granted", member: "permission_denied", stranger: "access_denied" },
  banUser: { call: (rest, { server_id, user_id }) => rest.banUser({ server_id, user_id }), owner: "rank_too_low", member: "permission_denied", stranger: "access_denied" },
  unbanUser: { call: (rest, { server_id, user_id }) => rest.unbanUser({ server_id, user_id }), owner: "ban_not_found", member: "permission_denied", stranger: "access_denied" },
  setOverride: { call: (rest, { channel_id, role_id }) => rest.setOverride({ channel_id, target_id: role_id, type: "role", allow: [], deny: [] }), owner: "granted", member: "permission_denied", stranger: "access_denied" },
  getOverride: { call: (rest, { channel_id, role_id }) => rest.getOverride({ channel_id, target_id: role_id }), owner: "granted", member: "permission_denied", stranger: "access_denied" },
  deleteOverride: { call: (rest, { channel_id, role_id }) => rest.deleteOverride({ channel_id, target_id: role_id }), owner: "granted", member: "permission_denied", stranger: "access_denied" },
  listChannels: { call: (rest, { server_id }) => rest.listChannels({ server_id }), owner: "granted", member: "granted", stranger: "access_denied" },
  createChannel: { call: (rest, { server_id }) => rest.createChannel({ server_id, name: "new" }), owner: "granted", member: "permission_denied", stranger: "access_denied" },
  getChannel: { call: (rest, { channel_id }) => rest.getChannel({ channel_id }), owner: "granted", member: "granted", stranger: "access_denied" },
  startTyping: { call: (rest, { channel_id }) => rest.startTyping({ channel_id }), owner: "granted", member: "granted", stranger: "access_denied" },
  createInvite: { call: (rest, { channel_id }) => rest.createInvite({ channel_id }), owner: "granted", member: "granted", stranger: "access_denied" },
  getInvite: { call: (rest, { invite_code }) => rest.getInvite({ invite_code }), owner: "granted", member: "granted", stranger: "granted" },
  joinByInvite: { call: (rest, { invite_code }) => rest.joinByInvite({ invite_code }), owner: "already_member", member: "already_member", stranger: "granted" },
  createMessage: { call: (rest, { channel_id }) => rest.createMessage({ channel_id, content: "x" }), owner: "granted", member: "granted", stranger: "access_denied" },
  listMessages: { call: (rest, { channel_id }) => rest.listMessages({ channel_id }), owner: "granted", member: "granted", stranger: "access_denied" },
  getMessage: { call: (rest, { channel_id, message_id }) => rest.getMessage({ channel_id, message_id }), owner: "granted", member: "granted", stranger: "access_denied" },
  editMessage: { call: (rest, { channel_id, message_id }) => rest.editMessage({ channel_id, message_id, content: "y" }), owner: "granted", member: "not_author", stranger: "access_denied" },
  deleteMessage: { call: (rest, { channel_id, message_id }) => rest.deleteMessage({ channel_id, message_id }), owner: "granted", member: "cannot_delete_message", stranger: "access_denied" },
  getIceServers: { call: rest => rest.getIceServers(), owner: "granted", member: "granted", stranger: "granted" },
  getVoiceInfo: { call: (rest, { voice_id }) => rest.getVoiceInfo({ channel_id: voice_id }), owner: "granted", member: "granted", stranger: "access_denied" },
  updatePresence: { call: rest => rest.updatePresence({ status: "idle" }), owner: "granted", member: "granted", stranger: "granted" },
  getPresence: { call: (rest, { user_id }) => rest.getPresence({ user_id }), owner: "granted", member: "granted", stranger: "granted" },
  listRelationships: { call: rest => rest.listRelationships(), owner: "granted", member: "granted", stranger: "granted" },
  requestFriend: { call: (rest, { user_id }) => rest.requestFriend({ user_id }), owner: "self_request", member: "granted", stranger: "granted" },
  acceptFriend: { call: (rest, { user_id }) => rest.acceptFriend({ user_id }), owner: "friend_request_not_found", member: "friend_request_not_found", stranger: "friend_request_not_found" },
  deleteRelationship: { call: (rest, { user_id }) => rest.deleteRelationship({ user_id }), owner: "relationship_not_found", member: "granted", stranger: "granted" },
  blockUser: { call: (rest, { user_id }) => rest.blockUser({ user_id }), owner: "self_block", member: "granted", stranger: "granted" },
  logout: { call: rest => rest.logout(), owner: "granted", member: "granted", stranger: "granted" },
} // prettier-ignore

async function scene(cluster: Cluster) {
  const { server, channel, ada, lin } = await cluster.seed(sharedServer)
  const place = cluster.workers[0]!
  const message = await ada.on(place).createMessage({ channel_id: channel.id, content: "Ada's" })
  const { code } = await ada.on(place).createInvite({ channel_id: channel.id })
  const voice = await ada.on(place).createChannel({ server_id: server.id, name: "talk", type: "voice" })
  const { id: role_id } = await ada.on(place).createRole({ server_id: server.id, name: "Crew" })
  const ids: Scene = {
    server_id: server.id,
    channel_id: channel.id,
    voice_id: voice.id,
    message_id: message.id,
    invite_code: code,
    user_id: ada.id,
    role_id,
  }
  return { ids, owner: ada, member: lin, stranger: await cluster.person("eve") }
}

const verdict = async (call: Promise<unknown>): Promise<string> => {
  const granted = call.then(() => "granted")
  return granted.catch(() => refusal(call))
}

test("every route that needs somebody is in the matrix", () => {
  const needing = Object.entries<Route>(routes).flatMap(([name, { auth }]) => (auth === "user" ? [name] : []))
  expect(Object.keys(matrix).toSorted()).toEqual(needing.toSorted())
})

/** What ends a session, a membership or a server comes after what does not, in an order in which each still finds its own. */
const ending = [
  "deleteOverride owner",
  "deleteRole owner",
  "joinByInvite stranger",
  "leaveServer member",
  "deleteMessage owner",
  "deleteServer owner",
  "logout",
]
const rank = (name: Name, role: string) => ending.findIndex(one => one === name || one === `${name} ${role}`)

test(
  "owner, member and stranger each get what the matrix says, on the worker of the home and on the other",
  { timeout: 90_000 },
  async ({ shared }) => {
    const attempts = (Object.keys(matrix) as Name[])
      .flatMap(name => (["owner", "member", "stranger"] as const).map(role => ({ name, role, rank: rank(name, role) })))
      .toSorted((a, b) => a.rank - b.rank)
    for (const place of [shared.east, shared.west]) {
      const { ids, ...people } = await scene(shared)
      for (const { name, role } of attempts) {
        const { call, ...expected } = matrix[name]!
        expect([name, role, await verdict(call(people[role].on(place), ids))]).toEqual([name, role, expected[role]])
      }
    }
  },
)

test("without a token every one of them is 401, before anything else is looked at", async ({ shared }) => {
  const { ids } = await scene(shared)
  const nobody = clientAt(shared.east)
  for (const { call } of Object.values(matrix)) {
    expect(await verdict(call(nobody, ids))).toBe("authentication_required")
    const named = { server_id: "x", channel_id: "x", voice_id: "x", message_id: "x", user_id: "x", role_id: "x" }
    const wrong = { ...named, invite_code: "\u0000" }
    expect(await verdict(call(nobody, wrong))).toBe("authentication_required")
  }
})
