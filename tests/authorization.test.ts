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
  editMe: { call: rest => rest.editMe({}), owner: "granted", member: "granted", stranger: "granted" },
  findUser: { call: rest => rest.findUser({ username: "nobody_is_called_so" }), owner: "user_not_found", member: "user_not_found", stranger: "user_not_found" },
  getMessagingSettings: { call: rest => rest.getMessagingSettings(), owner: "granted", member: "granted", stranger: "granted" },
  editMessagingSettings: { call: rest => rest.editMessagingSettings({ auto_create_dms: false }), owner: "granted", member: "granted", stranger: "granted" },
  listSettings: { call: rest => rest.listSettings(), owner: "granted", member: "granted", stranger: "granted" },
  putSetting: { call: rest => rest.putSetting({ key: "theme", value: "dark" }), owner: "granted", member: "granted", stranger: "granted" },
  putSettings: { call: rest => rest.putSettings({ theme: "light" }), owner: "granted", member: "granted", stranger: "granted" },
  getSetting: { call: rest => rest.getSetting({ key: "theme" }), owner: "granted", member: "granted", stranger: "granted" },
  deleteSetting: { call: rest => rest.deleteSetting({ key: "theme" }), owner: "granted", member: "granted", stranger: "granted" },
  getMyFeatures: { call: rest => rest.getMyFeatures(), owner: "granted", member: "granted", stranger: "granted" },
  listNotifications: { call: rest => rest.listNotifications(), owner: "granted", member: "granted", stranger: "granted" },
  readAllNotifications: { call: rest => rest.readAllNotifications(), owner: "granted", member: "granted", stranger: "granted" },
  readNotification: { call: rest => rest.readNotification({ notification_id: "1" }), owner: "notification_not_found", member: "notification_not_found", stranger: "notification_not_found" },
  getUserFeatures: { call: (rest, { user_id }) => rest.getUserFeatures({ user_id }), owner: "administrator_only", member: "administrator_only", stranger: "administrator_only" },
  editUserFeatures: { call: (rest, { user_id }) => rest.editUserFeatures({ user_id, rate_limit_tier: "staff" }), owner: "administrator_only", member: "administrator_only", stranger: "administrator_only" },
  setTier: { call: (rest, { user_id }) => rest.setTier({ user_id, tier: "staff" }), owner: "administrator_only", member: "administrator_only", stranger: "administrator_only" },
  addBadge: { call: (rest, { user_id }) => rest.addBadge({ user_id, badge: "staff" }), owner: "administrator_only", member: "administrator_only", stranger: "administrator_only" },
  removeBadge: { call: (rest, { user_id }) => rest.removeBadge({ user_id, badge: "staff" }), owner: "administrator_only", member: "administrator_only", stranger: "administrator_only" },
  listTiers: { call: rest => rest.listTiers(), owner: "administrator_only", member: "administrator_only", stranger: "administrator_only" },
  listBadges: { call: rest => rest.listBadges(), owner: "administrator_only", member: "administrator_only", stranger: "administrator_only" },
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
  listAuditLog: { call: (rest, { server_id }) => rest.listAuditLog({ server_id }), owner: "granted", member: "permission_denied", stranger: "access_denied" },
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
  refresh: { call: rest => rest.refresh(), owner: "granted", member: "granted", stranger: "granted" },
  listSessions: { call: rest => rest.listSessions(), owner: "granted", member: "granted", stranger: "granted" },
  revokeSession: { call: rest => rest.revokeSession({ session_id: "1" }), owner: "session_not_found", member: "session_not_found", stranger: "session_not_found" },
  revokeAllSessions: { call: rest => rest.revokeAllSessions({}), owner: "granted", member: "granted", stranger: "granted" },
  getTwoFactorStatus: { call: rest => rest.getTwoFactorStatus(), owner: "granted", member: "granted", stranger: "granted" },
  enableTwoFactor: { call: rest => rest.enableTwoFactor({ password: "" }), owner: "password_required", member: "password_required", stranger: "password_required" },
  confirmTwoFactor: { call: rest => rest.confirmTwoFactor({ code: "123456" }), owner: "second_factor_not_started", member: "second_factor_not_started", stranger: "second_factor_not_started" },
  disableTwoFactor: { call: rest => rest.disableTwoFactor({ password: "x", code: "x" }), owner: "second_factor_not_enabled", member: "second_factor_not_enabled", stranger: "second_factor_not_enabled" },
  deleteAccount: { call: rest => rest.deleteAccount({}), owner: "password_required", member: "password_required", stranger: "password_required" },
  getExport: { call: rest => rest.getExport(), owner: "export_not_found", member: "export_not_found", stranger: "export_not_found" },
  getExportPart: { call: rest => rest.getExportPart({ part: "1" }), owner: "export_not_found", member: "export_not_found", stranger: "export_not_found" },
  requestExport: { call: rest => rest.requestExport(), owner: "granted", member: "granted", stranger: "granted" },
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
  const needing = Object.entries<Route>(routes).flatMap(([name, { auth }]) => (auth === "public" ? [] : [name]))
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
  for (const [name, { call }] of Object.entries(matrix)) {
    const missing = name === "refresh" ? "missing_token" : "authentication_required"
    expect(await verdict(call(nobody, ids))).toBe(missing)
    const named = { server_id: "x", channel_id: "x", voice_id: "x", message_id: "x", user_id: "x", role_id: "x" }
    const wrong = { ...named, invite_code: "\u0000" }
    expect(await verdict(call(nobody, wrong))).toBe(missing)
  }
})
