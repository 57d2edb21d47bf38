import { z } from "zod"
import * as accountDeletion from "./accounts/account-deletion.ts"
import * as attachments from "./messages/attachments.ts"
import { auditLogOf } from "./communities/audit-log.ts"
import * as auth from "./accounts/auth.ts"
import * as avatars from "./accounts/avatars.ts"
import * as bots from "./accounts/bots.ts"
import * as automod from "./communities/automod.ts"
import * as channels from "./communities/channels.ts"
import * as directs from "./social/directs.ts"
import * as emojis from "./communities/emojis.ts"
import * as exports from "./accounts/exports.ts"
import * as features from "./accounts/features.ts"
import * as feedback from "./service/feedback.ts"
import * as fileReports from "./messages/file-reports.ts"
import * as gateway from "./core/gateway.ts"
import type { ClientOp, ServerOp } from "./core/gateway-codes.ts"
import * as guildMembers from "./communities/guild-members.ts"
import * as icons from "./communities/icons.ts"
import * as invites from "./communities/invites.ts"
import * as emailLinks from "./accounts/email-links.ts"
import * as members from "./communities/members.ts"
import * as messages from "./messages/messages.ts"
import * as messagingSettings from "./accounts/messaging-settings.ts"
import * as moderation from "./communities/moderation.ts"
import * as notificationSettings from "./accounts/notification-settings.ts"
import * as notifications from "./accounts/notifications.ts"
import * as pushSubscriptions from "./accounts/push-subscriptions.ts"
import * as oauth from "./accounts/oauth.ts"
import * as overrides from "./communities/overrides.ts"
import * as operatorDashboard from "./operators/dashboard.ts"
import * as operatorOverview from "./operators/overview.ts"
import * as operatorSignIn from "./operators/sign-in.ts"
import * as operatorAccessTokens from "./operators/access-tokens.ts"
import * as operatorSecurity from "./operators/security.ts"
import * as operatorFileBlocks from "./operators/file-blocks.ts"
import * as operatorReviews from "./operators/reviews.ts"
import * as operatorTickets from "./operators/tickets.ts"
import * as operatorLogs from "./operators/logs.ts"
import * as operatorTelemetry from "./operators/telemetry.ts"
import * as operatorAutomod from "./operators/automod.ts"
import * as operatorTrail from "./operators/trail.ts"
import * as operatorUsers from "./operators/users.ts"
import * as polls from "./messages/polls.ts"
import * as pins from "./messages/pins.ts"
import * as presence from "./social/presence.ts"
import * as reactions from "./messages/reactions.ts"
import * as readState from "./messages/read-state.ts"
import type { EventDefinition, Route } from "./core/registry.ts"
import * as relationships from "./social/relationships.ts"
import * as reports from "./messages/reports.ts"
import * as roles from "./communities/roles.ts"
import * as search from "./messages/search.ts"
import * as serverBots from "./communities/server-bots.ts"
import * as servers from "./communities/servers.ts"
import * as serverStatus from "./service/server-status.ts"
import * as settings from "./accounts/settings.ts"
import * as stickers from "./communities/stickers.ts"
import * as system from "./service/system.ts"
import * as telemetry from "./service/telemetry.ts"
import * as passkeys from "./accounts/passkeys.ts"
import * as twoFactor from "./accounts/two-factor.ts"
import * as uploadSessions from "./messages/upload-sessions.ts"
import * as users from "./accounts/users.ts"
import * as voice from "./voice/voice.ts"
import * as webhooks from "./messages/webhooks.ts"

const auditLog = auditLogOf([...messages.auditActions, ...pins.auditActions, ...webhooks.auditActions])

/** Every action that an audit log may name. */
export type AuditAction = (typeof auditLog.auditActions)[number]

/** Limits that stand beside their resource, for the generated page of limits. */
export const resourceLimits = [
  pins,
  polls,
  pushSubscriptions,
  uploadSessions,
  fileReports,
  reports,
  feedback,
  operatorReviews,
  operatorTickets,
  telemetry,
  passkeys,
]

/** The routes of the operator area, by operation id. They are no part of what users can do. */
export const operatorRoutes = {
  ...operatorSignIn.routes,
  ...operatorOverview.routes,
  ...operatorDashboard.routes,
  ...operatorTickets.routes,
  ...operatorReviews.routes,
  ...operatorFileBlocks.routes,
  ...operatorLogs.routes,
  ...operatorTelemetry.routes,
  ...operatorTrail.routes,
  ...operatorUsers.routes,
  ...operatorSecurity.routes,
  ...operatorAccessTokens.routes,
  ...operatorAutomod.routes,
}
export type OperatorRouteName = keyof typeof operatorRoutes

/** Every REST route, by operation id. */
export const routes = {
  ...system.routes,
  ...auth.routes,
  ...twoFactor.routes,
  ...passkeys.routes,
  ...emailLinks.routes,
  ...oauth.routes,
  ...users.routes,
  ...avatars.routes,
  ...bots.routes,
  ...directs.routes,
  ...messagingSettings.routes,
  ...settings.routes,
  ...features.routes,
  ...notifications.routes,
  ...pushSubscriptions.routes,
  ...notificationSettings.routes,
  ...exports.routes,
  ...accountDeletion.routes,
  ...servers.routes,
  ...roles.routes,
  ...emojis.routes,
  ...stickers.routes,
  ...icons.routes,
  ...members.routes,
  ...serverBots.routes,
  ...moderation.routes,
  ...auditLog.routes,
  ...automod.routes,
  ...channels.routes,
  ...overrides.routes,
  ...invites.routes,
  ...messages.routes,
  ...attachments.routes,
  ...uploadSessions.routes,
  ...fileReports.routes,
  ...reports.routes,
  ...feedback.routes,
  ...polls.routes,
  ...reactions.routes,
  ...pins.routes,
  ...search.routes,
  ...readState.routes,
  ...presence.routes,
  ...relationships.routes,
  ...voice.routes,
  ...webhooks.routes,
  ...telemetry.routes,
  ...operatorRoutes,
}
export type Routes = typeof routes
export type AuditEntry = z.output<Routes["listAuditLog"]["reply"]>[number]

/**
 * Routes that are answered in maintenance, too: clients and machines learn from them that it is so,
 * and operators end it.
 */
export const openInMaintenance: ReadonlySet<Route> = new Set<Route>([
  ...Object.values(system.routes),
  ...Object.values<Route>(routes).filter(({ mount, auth }) => mount === "operators" || auth === "administrator"),
])

/** Every gateway event, by wire name. */
export const events = {
  READY: gateway.ready,
  RESUMED: gateway.resumed,
  SESSION_POSITION: gateway.sessionPosition,
  GUILD_CREATE: servers.guildCreate,
  GUILD_UPDATE: servers.guildUpdate,
  GUILD_DELETE: servers.guildDelete,
  GUILD_MEMBER_ADD: servers.guildMemberAdd,
  GUILD_MEMBER_REMOVE: servers.guildMemberRemove,
  GUILD_MEMBER_UPDATE: roles.guildMemberUpdate,
  GUILD_MEMBERS_CHUNK: guildMembers.guildMembersChunk,
  GUILD_BAN_ADD: moderation.guildBanAdd,
  GUILD_BAN_REMOVE: moderation.guildBanRemove,
  INVITE_CREATE: invites.inviteCreate,
  INVITE_DELETE: invites.inviteDelete,
  GUILD_ROLE_CREATE: roles.guildRoleCreate,
  GUILD_ROLE_UPDATE: roles.guildRoleUpdate,
  GUILD_ROLE_DELETE: roles.guildRoleDelete,
  GUILD_EMOJIS_UPDATE: emojis.guildEmojisUpdate,
  GUILD_STICKERS_UPDATE: stickers.guildStickersUpdate,
  CHANNEL_CREATE: channels.channelCreate,
  CHANNEL_UPDATE: channels.channelUpdate,
  CHANNEL_DELETE: channels.channelDelete,
  TYPING_START: channels.typingStart,
  TYPING_STOP: channels.typingStop,
  PRESENCE_UPDATE: presence.presenceUpdate,
  MESSAGE_CREATE: messages.messageCreate,
  MESSAGE_UPDATE: messages.messageUpdate,
  MESSAGE_DELETE: messages.messageDelete,
  MESSAGE_DELETE_BULK: messages.messageDeleteBulk,
  MESSAGE_ACK: readState.messageAck,
  MESSAGE_REACTION_ADD: reactions.messageReactionAdd,
  MESSAGE_REACTION_REMOVE: reactions.messageReactionRemove,
  RELATIONSHIP_ADD: relationships.relationshipAdd,
  RELATIONSHIP_REMOVE: relationships.relationshipRemove,
  USER_UPDATE: users.userUpdate,
  NOTIFICATION_CREATE: notifications.notificationCreate,
  NOTIFICATION_UPDATE: notifications.notificationUpdate,
  NOTIFICATION_SETTINGS_UPDATE: notificationSettings.notificationSettingsUpdate,
  SECURITY_LOGOUT: serverStatus.securityLogout,
  VOICE_STATE_UPDATE: voice.voiceStateUpdate,
  VOICE_SERVER_UPDATE: voice.voiceServerUpdate,
  WEBHOOKS_UPDATE: webhooks.webhooksUpdate,
} satisfies Record<string, EventDefinition>
export type EventName = keyof typeof events

/** `d` of what a client sends, by opcode. Unknown keys are ignored. */
export const clientFrames = {
  HEARTBEAT: z.unknown(),
  IDENTIFY: gateway.Identify,
  RESUME: gateway.Resume,
  REQUEST_GUILD_MEMBERS: guildMembers.RequestGuildMembers,
  PRESENCE_UPDATE: presence.PresenceUpdate,
  TYPING_START: gateway.Typing,
  VOICE_STATE_UPDATE: voice.VoiceStateRequest,
  VOICE_CONNECT: voice.VoiceConnect,
  VOICE_DISCONNECT: z.unknown(),
  VOICE_SDP_OFFER: voice.VoiceOffer,
  VOICE_SDP_ANSWER: voice.VoiceAnswer,
  VOICE_ICE_CANDIDATE: voice.VoiceCandidate,
  VOICE_SPEAKING: voice.VoiceSpeaking,
  VOICE_QUALITY: voice.VoiceQuality,
  TYPING_STOP: gateway.Typing,
} satisfies Record<ClientOp, z.ZodType>

/** `d` of what a client is sent, by opcode; dispatches are `events`. */
export const serverFrames = {
  HELLO: gateway.Hello,
  RECONNECT: z.null(),
  INVALID_SESSION: z.literal(false),
  HEARTBEAT_ACK: z.undefined(),
  VOICE_SDP_OFFER: voice.RelayedOffer,
  VOICE_SDP_ANSWER: voice.RelayedAnswer,
  VOICE_ICE_CANDIDATE: voice.RelayedCandidate,
  VOICE_SPEAKING: voice.RelayedSpeaking,
  SERVER_STATUS: serverStatus.ServerStatus,
} satisfies Record<Exclude<ServerOp, "DISPATCH">, z.ZodType>
