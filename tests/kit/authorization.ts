/**
 * Every route of the contract with one harmless request, everybody who may come along, and what the contract says to each
 * of them. What may or may not be done is computed: see `expected`.
 */
import { hashSecret, newSecret } from "../../src/cluster/tokens.ts"
import { routes, type Routes } from "../../src/contract/contract.ts"
import { errors, type ErrorCode } from "../../src/contract/core/errors.ts"
import { permissionNames, type Permission } from "../../src/contract/core/permissions.ts"
import { isForUsers, type Needed, type Route } from "../../src/contract/core/registry.ts"
import { grantedAtCreation } from "../../src/domain/core/permissions.ts"
import { shardOf } from "../../src/domain/core/snowflake.ts"
import type { Cluster } from "./cluster.ts"
import { refusal } from "./conformance.ts"
import type { Person, Starling } from "./person.ts"
import { apng, fileOf } from "./pictures.ts"
import { pushedTo } from "./push-service.ts"
import { plantedId } from "./seeds.ts"

type Name = keyof Routes

/** Who asks, and what they are granted: by `@everyone` of their scene's server, and by a role of their own. */
interface Caller {
  readonly name: string
  readonly standing: "owner" | "member" | "acquainted" | "banned" | "stranger" | "nobody"
  readonly everyone: readonly Permission[]
  readonly own: readonly Permission[]
  readonly isBot?: true
}

const few: readonly Permission[] = ["channels.view", "messages.read"]
const member = (name: string, own: readonly Permission[] = [], everyone = few): Caller => ({
  name,
  standing: "member",
  everyone,
  own,
})
const outsider = (name: Caller["name"], standing: Caller["standing"]): Caller => ({
  ...member(name),
  standing,
})

const isMember = ({ standing }: Caller) => standing === "owner" || standing === "member"
const holds = ({ standing, everyone, own }: Caller, permission: Permission) =>
  standing === "owner" || [...everyone, ...own].some(name => name === permission || name === "administrator")
const holdsOneOf = (caller: Caller, ...names: Permission[]) => names.some(name => holds(caller, name))

/** What a caller's requests name: a server of their own scene. */
interface Scene {
  readonly server_id: string
  /** Another in which the caller is what they are there. */
  readonly doomed_server_id: string
  readonly channel_id: string
  readonly doomed_channel_id: string
  readonly voice_id: string
  /** By the owner. */
  readonly message_id: string
  /** By the caller. */
  readonly own_message_id: string
  readonly doomed_message_id: string
  /** By the owner. */
  readonly invite_code: string
  /** Of a role that ranks lowest; the caller's own ranks above it. */
  readonly role_id: string
  /** A member without a role. */
  readonly member_id: string
  readonly webhook_id: string
  readonly doomed_webhook_id: string
  readonly sticker_id: string
  /** The caller's user id. */
  readonly own_id: string
}

interface Request {
  readonly call: (rest: Starling, scene: Scene) => Promise<unknown>
  /** What this request needs where the contract cannot say it of the whole route. */
  readonly needs?: Needed
  /** A rule of the route's own, which a caller meets who is where it is about. */
  readonly own?: (caller: Caller) => ErrorCode | undefined
  /** It is about a channel that its path does not name. */
  readonly isInChannel?: true
  /** How a missing permission is called here. */
  readonly lacking?: ErrorCode
  /** Ends what other requests name: those come before it, and of several the one with the lowest number. */
  readonly ends?: number
}

const dot = fileOf(apng())
/** Who may send a picture is told that this is none. */
const noPicture = fileOf(Buffer.from("no picture"))
const unknown = "1"
const keyNamed = { id: "x", rawId: "x", type: "public-key" as const }
const unsigned = { ...keyNamed, response: { clientDataJSON: "x", authenticatorData: "x", signature: "x" } }
const unattested = { ...keyNamed, response: { clientDataJSON: "x", attestationObject: "x" } }
const notOthers = ({ standing }: Caller): ErrorCode | undefined => (standing === "owner" ? undefined : "not_author")
const ifHeMaySend = (caller: Caller): ErrorCode | undefined =>
  holds(caller, "messages.send") ? undefined : "permission_denied"
const mayRead = (caller: Caller) => holds(caller, "channels.view") && holds(caller, "messages.read")
const unlessBanned = ({ standing }: Caller): ErrorCode | undefined => (standing === "banned" ? "banned" : undefined)

/** Mostly they name something that is not there: what is not found was allowed to be looked for. */
export const requests: { readonly [N in Name]?: Request | readonly Request[] } = {
  getHealth: { call: rest => rest.getHealth() },
  getLive: { call: rest => rest.getLive() },
  getReady: { call: rest => rest.getReady() },
  getVersion: { call: rest => rest.getVersion() },
  negotiateVersion: { call: rest => rest.negotiateVersion({ client_version: "a.1.0-49" }) },
  getStatus: { call: rest => rest.getStatus() },
  getRoot: { call: rest => rest.getRoot() },
  getApiRoot: { call: rest => rest.getApiRoot() },
  getCapabilities: { call: rest => rest.getCapabilities() },
  getSecurityLogoutHelp: { call: rest => rest.getSecurityLogoutHelp() },
  getAccessBlockedHelp: { call: rest => rest.getAccessBlockedHelp() },
  getQrCode: { call: rest => rest.getQrCode({ data: "x" }) },
  getPasswordRequirements: { call: rest => rest.getPasswordRequirements() },
  register: { call: rest => rest.register({ username: "no one", email: "x@example.com", password: "x" }) },
  login: { call: (rest, { own_id }) => rest.login({ username: `nobody_${own_id}`, password: "x" }) },
  completeTwoFactor: { call: rest => rest.completeTwoFactor({ challenge_token: "x", code: "123456" }) },
  requestPasswordReset: { call: rest => rest.requestPasswordReset({ email: "nobody@example.com" }) },
  confirmPasswordReset: { call: rest => rest.confirmPasswordReset({ token: "x", new_password: "Correct-Horse-9" }) },
  verifyEmail: { call: rest => rest.verifyEmail({ token: "x" }) },
  restoreEmail: { call: rest => rest.restoreEmail({ token: "x" }) },
  resendVerification: { call: rest => rest.resendVerification({ email: "nobody@example.com" }) },
  beginOAuth: { call: rest => rest.beginOAuth({ provider: "nobody", redirect_uri: "https://chat.example/" }) },
  completeOAuth: {
    call: rest =>
      rest.completeOAuth({ provider: "nobody", code: "x", state: "x", redirect_uri: "https://chat.example/" }),
  },
  refresh: { call: rest => rest.refresh() },
  listSessions: { call: rest => rest.listSessions() },
  revokeSession: { call: rest => rest.revokeSession({ session_id: unknown }) },
  revokeAllSessions: { call: rest => rest.revokeAllSessions({}) },
  getTwoFactorStatus: { call: rest => rest.getTwoFactorStatus() },
  enableTwoFactor: { call: rest => rest.enableTwoFactor({ password: "" }) },
  confirmTwoFactor: { call: rest => rest.confirmTwoFactor({ code: "123456" }) },
  disableTwoFactor: { call: rest => rest.disableTwoFactor({ password: "x", code: "x" }) },
  beginPasskeySignIn: { call: rest => rest.beginPasskeySignIn() },
  completePasskeySignIn: { call: rest => rest.completePasskeySignIn(unsigned) },
  beginPasskeyFactor: { call: rest => rest.beginPasskeyFactor({ challenge_token: "x" }) },
  completePasskeyFactor: { call: rest => rest.completePasskeyFactor({ challenge_token: "x", passkey: unsigned }) },
  listPasskeys: { call: rest => rest.listPasskeys() },
  preparePasskey: { call: rest => rest.preparePasskey({}) },
  addPasskey: { call: rest => rest.addPasskey({ name: "Key", passkey: unattested }) },
  renamePasskey: { call: rest => rest.renamePasskey({ passkey_id: unknown, name: "Key" }) },
  removePasskey: { call: rest => rest.removePasskey({ passkey_id: unknown }) },

  getMe: { call: rest => rest.getMe() },
  editMe: { call: rest => rest.editMe({}) },
  findUser: { call: rest => rest.findUser({ username: "nobody_is_called_so" }) },
  getUser: { call: (rest, { member_id }) => rest.getUser({ user_id: member_id }) },
  getMessagingSettings: { call: rest => rest.getMessagingSettings() },
  editMessagingSettings: { call: rest => rest.editMessagingSettings({ auto_create_dms: false }) },
  listSettings: { call: rest => rest.listSettings() },
  getSetting: { call: rest => rest.getSetting({ key: "theme" }) },
  putSetting: { call: rest => rest.putSetting({ key: "theme", value: "dark" }) },
  putSettings: { call: rest => rest.putSettings({ theme: "light" }) },
  deleteSetting: { call: rest => rest.deleteSetting({ key: "theme" }) },
  getMyFeatures: { call: rest => rest.getMyFeatures() },
  getUserFeatures: { call: (rest, { member_id }) => rest.getUserFeatures({ user_id: member_id }) },
  editUserFeatures: {
    call: (rest, { member_id }) => rest.editUserFeatures({ user_id: member_id, rate_limit_tier: "staff" }),
  },
  setTier: { call: (rest, { member_id }) => rest.setTier({ user_id: member_id, tier: "staff" }) },
  addBadge: { call: (rest, { member_id }) => rest.addBadge({ user_id: member_id, badge: "staff" }) },
  removeBadge: { call: (rest, { member_id }) => rest.removeBadge({ user_id: member_id, badge: "staff" }) },
  listTiers: { call: rest => rest.listTiers() },
  listBadges: { call: rest => rest.listBadges() },
  listNotifications: { call: rest => rest.listNotifications() },
  listPushSubscriptions: { call: rest => rest.listPushSubscriptions() },
  getPushKey: { call: rest => rest.getPushKey() },
  createPushSubscription: { call: rest => rest.createPushSubscription(pushedTo) },
  deletePushSubscription: { call: rest => rest.deletePushSubscription({ subscription_id: unknown }) },
  testPushSubscription: { call: rest => rest.testPushSubscription({ subscription_id: unknown }) },
  readAllNotifications: { call: rest => rest.readAllNotifications() },
  readNotification: { call: rest => rest.readNotification({ notification_id: unknown }) },
  getExport: { call: rest => rest.getExport() },
  getExportPart: { call: rest => rest.getExportPart({ part: "1" }) },
  requestExport: { call: rest => rest.requestExport() },
  deleteAccount: { call: rest => rest.deleteAccount({}) },
  updatePresence: { call: rest => rest.updatePresence({ status: "idle" }) },
  getPresence: { call: (rest, { member_id }) => rest.getPresence({ user_id: member_id }) },
  listRelationships: { call: rest => rest.listRelationships() },
  requestFriend: { call: rest => rest.requestFriend({ user_id: unknown }) },
  acceptFriend: { call: rest => rest.acceptFriend({ user_id: unknown }) },
  deleteRelationship: { call: rest => rest.deleteRelationship({ user_id: unknown }) },
  blockUser: { call: rest => rest.blockUser({ user_id: unknown }) },
  listDirectChannels: { call: rest => rest.listDirectChannels() },
  openDirectChannel: { call: rest => rest.openDirectChannel({ recipient_id: unknown }) },
  getNotes: { call: rest => rest.getNotes() },

  listServers: { call: rest => rest.listServers() },
  createServer: { call: rest => rest.createServer({ name: "Mine" }) },
  getServer: { call: (rest, { server_id }) => rest.getServer({ server_id }) },
  editServer: { call: (rest, { server_id }) => rest.editServer({ server_id, description: "new" }) },
  getServerPermissions: { call: (rest, { server_id }) => rest.getServerPermissions({ server_id }) },
  transferServer: { call: (rest, { server_id }) => rest.transferServer({ server_id, user_id: unknown }) },
  deleteServer: { call: (rest, { doomed_server_id }) => rest.deleteServer({ server_id: doomed_server_id }) },
  leaveServer: {
    call: (rest, { server_id }) => rest.leaveServer({ server_id }),
    own: ({ standing }) => (standing === "owner" ? "owner_cannot_leave" : undefined),
    ends: 2,
  },
  joinServer: {
    call: (rest, { server_id }) => rest.joinServer({ server_id }),
    // The server is public.
    own: unlessBanned,
    ends: 4,
  },
  getInvite: { call: (rest, { invite_code }) => rest.getInvite({ invite_code }) },
  joinByInvite: { call: (rest, { invite_code }) => rest.joinByInvite({ invite_code }), own: unlessBanned, ends: 4 },
  listInvites: { call: (rest, { server_id }) => rest.listInvites({ server_id }) },
  createInvite: { call: (rest, { channel_id }) => rest.createInvite({ channel_id }) },
  deleteInvite: {
    call: (rest, { invite_code }) => rest.deleteInvite({ invite_code }),
    needs: ["invites.manage", "server.manage"],
    ends: 1,
  },

  listRoles: { call: (rest, { server_id }) => rest.listRoles({ server_id }) },
  createRole: { call: (rest, { server_id }) => rest.createRole({ server_id, name: "new" }) },
  editRole: { call: (rest, { server_id, role_id }) => rest.editRole({ server_id, role_id, hoist: true }) },
  deleteRole: { call: (rest, { server_id }) => rest.deleteRole({ server_id, role_id: unknown }) },
  giveRole: {
    call: (rest, { server_id, member_id, role_id }) => rest.giveRole({ server_id, member_id, role_id }),
  },
  takeRole: {
    call: (rest, { server_id, member_id, role_id }) => rest.takeRole({ server_id, member_id, role_id }),
  },
  listMembers: { call: (rest, { server_id }) => rest.listMembers({ server_id }) },
  getMember: { call: (rest, { server_id, member_id }) => rest.getMember({ server_id, member_id }) },
  editOwnMember: { call: (rest, { server_id }) => rest.editOwnMember({ server_id, nickname: "Me" }) },
  editMember: [
    {
      call: (rest, { server_id, member_id }) => rest.editMember({ server_id, member_id, nickname: "You" }),
      needs: ["members.manage_nicknames"],
    },
    {
      call: (rest, { server_id, member_id }) => rest.editMember({ server_id, member_id, timeout_seconds: 60 }),
      needs: ["members.kick"],
    },
    { call: (rest, { server_id, own_id }) => rest.editMember({ server_id, member_id: own_id, nickname: "Me" }) },
  ],
  kickMember: { call: (rest, { server_id }) => rest.kickMember({ server_id, member_id: unknown }) },
  listBans: { call: (rest, { server_id }) => rest.listBans({ server_id }) },
  banUser: { call: (rest, { server_id }) => rest.banUser({ server_id, user_id: unknown }) },
  unbanUser: { call: (rest, { server_id }) => rest.unbanUser({ server_id, user_id: unknown }) },
  listAuditLog: { call: (rest, { server_id }) => rest.listAuditLog({ server_id }) },

  listChannels: { call: (rest, { server_id }) => rest.listChannels({ server_id }) },
  createChannel: { call: (rest, { server_id }) => rest.createChannel({ server_id, name: "new" }) },
  reorderChannels: {
    call: (rest, { server_id, channel_id }) =>
      rest.reorderChannels({ server_id, channels: [{ id: channel_id, position: 0 }] }),
  },
  getChannel: { call: (rest, { channel_id }) => rest.getChannel({ channel_id }) },
  editChannel: { call: (rest, { channel_id }) => rest.editChannel({ channel_id, topic: "new" }) },
  deleteChannel: { call: (rest, { doomed_channel_id }) => rest.deleteChannel({ channel_id: doomed_channel_id }) },
  startTyping: { call: (rest, { channel_id }) => rest.startTyping({ channel_id }) },
  setOverride: {
    call: (rest, { channel_id, role_id }) =>
      rest.setOverride({ channel_id, target_id: role_id, type: "role", allow: [], deny: [] }),
  },
  listOverrides: { call: (rest, { channel_id }) => rest.listOverrides({ channel_id }) },
  getOverride: { call: (rest, { channel_id }) => rest.getOverride({ channel_id, target_id: unknown }) },
  deleteOverride: { call: (rest, { channel_id }) => rest.deleteOverride({ channel_id, target_id: unknown }) },

  createMessage: [
    { call: (rest, { channel_id }) => rest.createMessage({ channel_id, content: "x" }) },
    {
      call: (rest, { channel_id }) => rest.createMessage({ channel_id, embeds: [{ title: "x" }] }),
      needs: ["messages.embed_links"],
      own: ifHeMaySend,
    },
    {
      call: (rest, { channel_id }) => rest.createMessage({ channel_id, attachments: [{ id: unknown }] }),
      needs: ["messages.attach_files"],
      own: ifHeMaySend,
    },
  ],
  uploadAttachment: { call: (rest, { channel_id }) => rest.uploadAttachment({ channel_id, file: dot }) },
  getAttachment: { call: rest => rest.getAttachment({ filename: "0".repeat(32) }) },
  createUploadSession: {
    call: rest => rest.createUploadSession({ filename: "note.txt", content_type: "text/plain", total_size: 5 }),
  },
  uploadChunk: { call: rest => rest.uploadChunk({ session_id: unknown, chunk_index: "0", file: dot }) },
  completeUpload: { call: rest => rest.completeUpload({ session_id: unknown }) },
  deleteUploadSession: { call: rest => rest.deleteUploadSession({ session_id: unknown }) },
  listUploadSessions: { call: rest => rest.listUploadSessions() },
  getCompressionStatus: { call: rest => rest.getCompressionStatus() },
  getHashStatus: { call: rest => rest.getHashStatus({ hash_value: "0".repeat(64) }) },
  reportFile: { call: rest => rest.reportFile({ hash_value: "0".repeat(64), reason: "spam" }) },
  reportMessage: {
    call: (rest, { channel_id, message_id }) => rest.reportMessage({ channel_id, message_id, reason: "spam" }),
  },
  reportUser: { call: rest => rest.reportUser({ user_id: unknown, reason: "spam" }) },
  sendFeedback: { call: rest => rest.sendFeedback({ content: "All is well here" }) },
  getFeedbackStatus: { call: rest => rest.getFeedbackStatus() },
  recordResponseTimes: { call: rest => rest.recordResponseTimes({ entries: [] }) },
  recordTelemetry: { call: rest => rest.recordTelemetry({ entries: [] }) },
  reportCspViolation: { call: rest => rest.reportCspViolation() },
  listMessages: { call: (rest, { channel_id }) => rest.listMessages({ channel_id }) },
  ackMessages: { call: (rest, { channel_id }) => rest.ackMessages({ channel_id }) },
  getUnread: { call: (rest, { channel_id }) => rest.getUnread({ channel_id }) },
  ackChannels: { call: (rest, { channel_id }) => rest.ackChannels({ [channel_id]: null }) },
  listUnread: { call: rest => rest.listUnread() },
  createPoll: {
    call: (rest, { own_message_id }) =>
      rest.createPoll({ message_id: own_message_id, question: "?", options: ["a", "b"] }),
    // To users who may not read it there is no such message.
    own: caller => (isMember(caller) && mayRead(caller) ? ifHeMaySend(caller) : undefined),
  },
  getPoll: { call: rest => rest.getPoll({ poll_id: unknown }) },
  getPollResults: { call: rest => rest.getPollResults({ poll_id: unknown }) },
  votePoll: { call: rest => rest.votePoll({ poll_id: unknown, option_ids: [unknown] }) },
  closePoll: { call: rest => rest.closePoll({ poll_id: unknown }) },
  deletePoll: { call: rest => rest.deletePoll({ poll_id: unknown }) },
  getMessage: { call: (rest, { channel_id, message_id }) => rest.getMessage({ channel_id, message_id }) },
  editMessage: [
    {
      call: (rest, { channel_id, own_message_id }) =>
        rest.editMessage({ channel_id, message_id: own_message_id, content: "y" }),
    },
    {
      call: (rest, { channel_id, message_id }) => rest.editMessage({ channel_id, message_id, content: "y" }),
      own: notOthers,
    },
  ],
  deleteMessage: [
    {
      call: (rest, { channel_id, own_message_id }) => rest.deleteMessage({ channel_id, message_id: own_message_id }),
    },
    {
      call: (rest, { channel_id, doomed_message_id }) =>
        rest.deleteMessage({ channel_id, message_id: doomed_message_id }),
      needs: ["messages.manage"],
      lacking: "cannot_delete_message",
    },
  ],

  bulkDeleteMessages: {
    call: (rest, { channel_id }) => rest.bulkDeleteMessages({ channel_id, messages: [unknown, unknown] }),
  },
  addReaction: {
    call: (rest, { channel_id, message_id }) => rest.addReaction({ channel_id, message_id, emoji: "👍" }),
  },
  removeReaction: {
    call: (rest, { channel_id, message_id }) => rest.removeReaction({ channel_id, message_id, emoji: "👍" }),
  },
  listReactions: { call: (rest, { channel_id, message_id }) => rest.listReactions({ channel_id, message_id }) },
  listReactors: {
    call: (rest, { channel_id, message_id }) => rest.listReactors({ channel_id, message_id, emoji: "👍" }),
  },
  listPins: { call: (rest, { channel_id }) => rest.listPins({ channel_id }) },
  searchChannel: { call: (rest, { channel_id }) => rest.searchChannel({ channel_id, content: "x" }) },
  searchMessages: { call: rest => rest.searchMessages({ query: "x" }) },
  searchUsers: { call: rest => rest.searchUsers({ query: "nobody_is_called_so" }) },
  searchServers: { call: rest => rest.searchServers({ query: "none is called so" }) },
  pinMessage: { call: (rest, { channel_id, message_id }) => rest.pinMessage({ channel_id, message_id }) },
  unpinMessage: { call: (rest, { channel_id, message_id }) => rest.unpinMessage({ channel_id, message_id }) },

  getIceServers: { call: rest => rest.getIceServers() },
  getVoiceInfo: { call: (rest, { voice_id }) => rest.getVoiceInfo({ channel_id: voice_id }) },

  createWebhook: {
    call: (rest, { channel_id }) => rest.createWebhook({ channel_id, name: "new" }),
    isInChannel: true,
  },
  getWebhook: { call: (rest, { webhook_id }) => rest.getWebhook({ webhook_id }), isInChannel: true },
  editWebhook: { call: (rest, { webhook_id }) => rest.editWebhook({ webhook_id, name: "new" }), isInChannel: true },
  deleteWebhook: {
    call: (rest, { doomed_webhook_id }) => rest.deleteWebhook({ webhook_id: doomed_webhook_id }),
    isInChannel: true,
  },
  regenerateWebhookToken: {
    call: (rest, { webhook_id }) => rest.regenerateWebhookToken({ webhook_id }),
    isInChannel: true,
  },
  listServerWebhooks: { call: (rest, { server_id }) => rest.listServerWebhooks({ server_id }) },
  listChannelWebhooks: { call: (rest, { channel_id }) => rest.listChannelWebhooks({ channel_id }) },
  executeWebhook: {
    call: (rest, { webhook_id }) => rest.executeWebhook({ webhook_id, token: "wrong", content: "x" }),
  },

  listAutomodRules: { call: (rest, { server_id }) => rest.listAutomodRules({ server_id }) },
  createAutomodRule: {
    call: (rest, { server_id }) =>
      rest.createAutomodRule({ server_id, name: "x", rule_type: "no_such_type", config: {}, actions: [] }),
  },
  editAutomodRule: { call: (rest, { server_id }) => rest.editAutomodRule({ server_id, rule_id: unknown, name: "x" }) },
  deleteAutomodRule: { call: (rest, { server_id }) => rest.deleteAutomodRule({ server_id, rule_id: unknown }) },
  listAutomodViolations: { call: (rest, { server_id }) => rest.listAutomodViolations({ server_id }) },

  listNotificationSettings: { call: rest => rest.listNotificationSettings() },
  getServerNotificationSettings: { call: (rest, { server_id }) => rest.getServerNotificationSettings({ server_id }) },
  putServerNotificationSettings: { call: (rest, { server_id }) => rest.putServerNotificationSettings({ server_id }) },
  getChannelNotificationSettings: {
    call: (rest, { channel_id }) => rest.getChannelNotificationSettings({ channel_id }),
  },
  putChannelNotificationSettings: {
    call: (rest, { channel_id }) => rest.putChannelNotificationSettings({ channel_id }),
  },

  listEmojis: { call: (rest, { server_id }) => rest.listEmojis({ server_id }) },
  countEmojis: { call: (rest, { server_id }) => rest.countEmojis({ server_id }) },
  getEmoji: { call: (rest, { server_id }) => rest.getEmoji({ server_id, emoji_id: unknown }) },
  createEmoji: { call: (rest, { server_id }) => rest.createEmoji({ server_id, name: "dot", image: noPicture }) },
  renameEmoji: { call: (rest, { server_id }) => rest.renameEmoji({ server_id, emoji_id: unknown, name: "spot" }) },
  deleteEmoji: { call: (rest, { server_id }) => rest.deleteEmoji({ server_id, emoji_id: unknown }) },
  getEmojiPicture: { call: rest => rest.getEmojiPicture({ emoji_id: unknown }) },
  listStickers: { call: (rest, { server_id }) => rest.listStickers({ server_id }) },
  createSticker: { call: (rest, { server_id }) => rest.createSticker({ server_id, name: "dot", image: noPicture }) },
  deleteSticker: { call: (rest, { sticker_id }) => rest.deleteSticker({ sticker_id }) },
  sendSticker: { call: rest => rest.sendSticker({ sticker_id: unknown, message_id: unknown }) },
  suggestStickers: { call: rest => rest.suggestStickers({}) },
  getStickerFile: { call: rest => rest.getStickerFile({ sticker_id: unknown }) },
  putAvatar: { call: rest => rest.putAvatar({ file: noPicture }) },
  putOwnAvatar: { call: rest => rest.putOwnAvatar({ file: noPicture }) },
  deleteAvatar: { call: rest => rest.deleteAvatar({}) },
  listBots: { call: rest => rest.listBots() },
  createBot: { call: rest => rest.createBot({ username: "no one" }) },
  getOwnBot: { call: rest => rest.getOwnBot({ bot_id: unknown }) },
  editBot: { call: rest => rest.editBot({ bot_id: unknown }) },
  deleteBot: { call: rest => rest.deleteBot({ bot_id: unknown }) },
  resetBotToken: { call: rest => rest.resetBotToken({ bot_id: unknown }) },
  putBotAvatar: { call: rest => rest.putBotAvatar({ bot_id: unknown, file: noPicture }) },
  deleteBotAvatar: { call: rest => rest.deleteBotAvatar({ bot_id: unknown }) },
  getOfferedBot: { call: rest => rest.getOfferedBot({ bot_id: unknown }) },
  addBot: { call: (rest, { server_id }) => rest.addBot({ server_id, bot_id: unknown }) },
  getAvatar: { call: rest => rest.getAvatar({ user_id: unknown }) },
  putIcon: { call: (rest, { server_id }) => rest.putIcon({ server_id, file: noPicture }) },
  uploadIcon: { call: (rest, { server_id }) => rest.uploadIcon({ server_id, file: noPicture }) },
  deleteIcon: { call: (rest, { server_id }) => rest.deleteIcon({ server_id }) },
  getIcon: { call: (rest, { server_id }) => rest.getIcon({ server_id }) },

  logout: { call: rest => rest.logout(), ends: 5 },
}

/** Every request there is, those that end something after the others. */
export const everyRequest = Object.entries(requests)
  .flatMap(([name, of]) => [of].flat().map((request, at) => ({ name: name as Name, at, ...request })))
  .toSorted((a, b) => (a.ends ?? 0) - (b.ends ?? 0))

/** What a request needs in its server, if it is about one. */
function neededBy({ name, needs }: { name: Name; needs?: Needed }): Needed | undefined {
  const { permission }: Route = routes[name]
  return needs ?? permission
}

const isAsked = (name: Permission) =>
  name === "administrator" || everyRequest.some(request => [neededBy(request)].flat().includes(name))
const asked = permissionNames.filter(isAsked)
/** Nothing tells these apart. */
const unasked = permissionNames.filter(name => !isAsked(name))

const callers: readonly Caller[] = [
  outsider("the owner", "owner"),
  ...asked.map(name => member(name, [name])),
  member(`${unasked.length} permissions that no route asks for`, unasked),
  member("a member"),
  member("a member of a new server", [], [...grantedAtCreation]),
  member("a member who is granted nothing", [], []),
  member("channels.view and nothing else", ["channels.view"], []),
  member("messages.read and nothing else", ["messages.read"], []),
  member("messages.send and nothing else", ["messages.send"], []),
  member("administrator and nothing else", ["administrator"], []),
  outsider("somebody of another server", "acquainted"),
  outsider("somebody banned", "banned"),
  outsider("a stranger", "stranger"),
  { ...member("a bot"), isBot: true },
  outsider("nobody", "nobody"),
]

/** Whether what a caller is granted in a server plays any part. */
const isOfServer = (request: (typeof everyRequest)[number]): boolean =>
  request.own !== undefined || neededBy(request) !== undefined

/** What a caller asks for. Where no server plays a part nobody's single permissions do: one member stands for all. */
export const requestsOf = ({ standing, own }: Caller) =>
  everyRequest.filter(request => isOfServer(request) || standing !== "member" || own.length === 0)

/** What the contract says to a caller: `granted`, or how they are refused. */
export function expected(request: (typeof everyRequest)[number], caller: Caller) {
  const { name, own, isInChannel, lacking } = request
  const { auth, path }: Route = routes[name]
  if (!isForUsers({ auth })) return "granted"
  if (caller.standing === "nobody") return name === "refresh" ? "missing_token" : "authentication_required"
  if (auth === "person" && caller.isBot) return "people_only"
  if (auth === "administrator") return "administrator_only"
  const needed = neededBy(request)
  if (needed === undefined) return own?.(caller) ?? "granted"
  if (!isMember(caller)) return "access_denied"
  if ((isInChannel || path.includes(":channel_id")) && !holds(caller, "channels.view")) return "access_denied"
  const refused = own?.(caller)
  if (refused) return refused
  if (needed === "member") return "granted"
  if (needed === "owner") return caller.standing === "owner" ? "granted" : "not_owner"
  return holdsOneOf(caller, ...needed) ? "granted" : (lacking ?? "permission_denied")
}

/** What somebody is told because of who they are. Open routes have other refusals with 401 and 403: of what was typed. */
const aboutCallers: ReadonlySet<ErrorCode> = new Set([
  "authentication_required",
  "people_only",
  "administrator_only",
  "access_denied",
  "permission_denied",
])

/** What a caller is told: how they are refused, or that they were allowed to try. */
export async function verdict(name: Name, call: Promise<unknown>): Promise<string> {
  const isGranted = await call.then(
    () => true,
    () => false,
  )
  if (isGranted) return "granted"
  const code = await refusal(call)
  const isRefusal = !isForUsers(routes[name]) ? aboutCallers.has(code) : [401, 403].includes(errors[code].status)
  return isRefusal ? code : "granted"
}

/** Somebody who may come along, with their token and with what there is in their scene. */
interface Guest {
  readonly caller: Caller
  readonly token: string | undefined
  readonly scene: Scene
}

/** A scene for each caller, written into the tables at once: none disturbs another. */
export async function plantGuests(cluster: Cluster): Promise<Guest[]> {
  const { sql } = cluster
  const [owner, other, ...people] = await Promise.all(
    ["ada", "lin", ...callers.map(() => "guest")].map(name => cluster.person(name)),
  )
  const bot = { id: plantedId(), secret: newSecret(48) }
  await sql`
    INSERT INTO users (id, username, created_at, bot, owner_id)
    VALUES (${bot.id}, ${cluster.newName("bot")}, 1704153600, true, ${owner!.id})`
  await sql`
    INSERT INTO sessions (id, user_id, token_hash, ip_address, user_agent, created_at, expires_at, last_activity)
    VALUES (${bot.id}, ${bot.id}, ${hashSecret(bot.secret)}, '', '', 1704153600, 9999999999, 1704153600)`

  const planted = callers.map((caller, i) => {
    const server_id = plantedId()
    const id = () => plantedId(shardOf(server_id))
    const person: Pick<Person, "id" | "token"> =
      caller.standing === "owner"
        ? owner!
        : caller.isBot
          ? { id: bot.id, token: `bot.${bot.id}.${bot.secret}` }
          : people[i]!
    const scene: Scene = {
      server_id,
      doomed_server_id: plantedId(),
      channel_id: id(),
      doomed_channel_id: id(),
      voice_id: id(),
      message_id: id(),
      own_message_id: id(),
      doomed_message_id: id(),
      invite_code: `Invite${i}`,
      role_id: id(),
      member_id: other!.id,
      webhook_id: id(),
      doomed_webhook_id: id(),
      sticker_id: id(),
      own_id: person.id,
    }
    return { caller, person, scene, pack_id: id(), own_role: id() }
  })
  const created_at = 1704153600
  const each = <T>(row: (of: (typeof planted)[number]) => T[]): T[] => planted.flatMap(row)

  const servers = each(({ scene: { server_id, doomed_server_id } }) =>
    [server_id, doomed_server_id].map(id => {
      return { id, name: "Planted", owner_id: owner!.id, member_count: 3, created_at, public: true }
    }),
  )
  await sql`INSERT INTO servers ${sql(servers)}`
  const role = { color: "#000000", hoist: false, mentionable: false }
  const roles = each(({ caller, scene: { server_id, doomed_server_id, role_id }, own_role }) => [
    ...[server_id, doomed_server_id].map(id => {
      return { ...role, id, server_id: id, name: "@everyone", position: 0, permissions: [...caller.everyone] }
    }),
    { ...role, id: role_id, server_id, name: "Low", position: 1, permissions: [] },
    { ...role, id: own_role, server_id, name: "Own", position: 2, permissions: [...caller.own] },
  ])
  await sql`INSERT INTO roles ${sql(roles)}`
  const members = each(({ caller, person, scene, own_role }) =>
    [scene.server_id, scene.doomed_server_id].flatMap(server_id => {
      const joined = (user_id: string, ...roles: string[]) => ({ server_id, user_id, joined_at: created_at, roles })
      const both = [joined(owner!.id), joined(scene.member_id)]
      return caller.standing === "member" ? [...both, joined(person.id, own_role)] : both
    }),
  )
  // A user who is acquainted is a member of the stranger's server: there is another to meet there.
  const elsewhere = planted.find(({ caller }) => caller.standing === "stranger")!
  for (const { caller, person } of planted)
    if (caller.standing === "acquainted")
      members.push({ server_id: elsewhere.scene.server_id, user_id: person.id, joined_at: created_at, roles: [] })
  await sql`INSERT INTO members ${sql(members)}`
  const channel = { channel_type: "text", nsfw: false, slowmode_seconds: 0, read_receipts_enabled: true, created_at }
  const channels = each(({ scene: { server_id, channel_id, doomed_channel_id, voice_id } }) => [
    { ...channel, id: channel_id, server_id, name: "general", position: 0 },
    { ...channel, id: doomed_channel_id, server_id, name: "doomed", position: 1 },
    { ...channel, id: voice_id, server_id, name: "talk", position: 2, channel_type: "voice" },
  ])
  await sql`INSERT INTO channels ${sql(channels)}`
  const messages = each(({ person, scene: { server_id, channel_id, ...scene } }) => {
    const by = (id: string, author_id: string) => ({ channel_id, server_id, id, author_id, content: "x" })
    return [
      by(scene.message_id, owner!.id),
      by(scene.own_message_id, person.id),
      by(scene.doomed_message_id, scene.member_id),
    ]
  })
  await sql`INSERT INTO messages ${sql(messages)}`
  const invites = each(({ scene: { server_id, channel_id, invite_code } }) => [
    {
      code: invite_code,
      server_id,
      channel_id,
      inviter_id: owner!.id,
      max_age: 0,
      max_uses: 0,
      temporary: false,
      uses: 0,
      created_at,
    },
  ])
  await sql`INSERT INTO invites ${sql(invites)}`
  const bans = each(({ caller, person, scene: { server_id } }) =>
    caller.standing === "banned"
      ? [{ server_id, user_id: person.id, reason: "", banned_by: owner!.id, banned_at: created_at }]
      : [],
  )
  await sql`INSERT INTO bans ${sql(bans)}`
  const webhooks = each(({ scene: { server_id, channel_id, webhook_id, doomed_webhook_id } }) =>
    [webhook_id, doomed_webhook_id].map(id => ({
      id,
      server_id,
      channel_id,
      creator_id: owner!.id,
      holder_id: owner!.id,
      name: "Hook",
      token_hash: hashSecret(newSecret()),
      created_at,
    })),
  )
  await sql`INSERT INTO webhooks ${sql(webhooks)}`
  const file = {
    file: "0",
    content_type: "image/png",
    hash: "0".repeat(64),
    size: 1,
    created_by: owner!.id,
    created_at,
  }
  const packs = each(({ pack_id, scene: { server_id } }) => [{ id: pack_id, server_id, name: "Pack" }])
  await sql`INSERT INTO sticker_packs ${sql(packs)}`
  const stickers = each(({ pack_id, scene: { server_id, sticker_id } }) => [
    { ...file, id: sticker_id, pack_id, server_id, name: "wave", format: "png", tags: [] },
  ])
  await sql`INSERT INTO stickers ${sql(stickers)}`

  return planted.map(({ caller, person, scene }) => ({
    caller,
    scene,
    token: caller.standing === "nobody" ? undefined : person.token,
  }))
}

/** For requests that are refused before anything they name is looked at. */
export const nonsense: Scene = Object.fromEntries(
  [
    "server_id",
    "doomed_server_id",
    "channel_id",
    "doomed_channel_id",
    "voice_id",
    "message_id",
    "own_message_id",
    "doomed_message_id",
    "invite_code",
    "role_id",
    "member_id",
    "webhook_id",
    "doomed_webhook_id",
    "sticker_id",
    "own_id",
  ].map(name => [name, name === "invite_code" ? "\u0000" : "x"]),
) as unknown as Scene
