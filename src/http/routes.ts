import type { routes } from "../contract/contract.ts"
import { accountDeletion } from "./accounts/account-deletion.ts"
import { attachments } from "./messages/attachments.ts"
import { auditLog } from "./communities/audit-log.ts"
import { auth } from "./accounts/auth.ts"
import { avatars } from "./accounts/avatars.ts"
import { bots } from "./accounts/bots.ts"
import { automod } from "./communities/automod.ts"
import { channels } from "./communities/channels.ts"
import { directs } from "./social/directs.ts"
import { emojis } from "./communities/emojis.ts"
import { exports } from "./accounts/exports.ts"
import { features } from "./accounts/features.ts"
import { feedback } from "./service/feedback.ts"
import { fileReports } from "./messages/file-reports.ts"
import { icons } from "./communities/icons.ts"
import { invites } from "./communities/invites.ts"
import { emailLinks } from "./accounts/email-links.ts"
import { members } from "./communities/members.ts"
import { messages } from "./messages/messages.ts"
import { messagingSettings } from "./accounts/messaging-settings.ts"
import { moderation } from "./communities/moderation.ts"
import { notificationSettings } from "./accounts/notification-settings.ts"
import { notifications } from "./accounts/notifications.ts"
import { oauth } from "./accounts/oauth.ts"
import { overrides } from "./communities/overrides.ts"
import { passkeys } from "./accounts/passkeys.ts"
import { pins } from "./messages/pins.ts"
import { polls } from "./messages/polls.ts"
import { presence } from "./social/presence.ts"
import { pushSubscriptions } from "./accounts/push-subscriptions.ts"
import { reactions } from "./messages/reactions.ts"
import { readState } from "./messages/read-state.ts"
import { relationships } from "./social/relationships.ts"
import { reports } from "./messages/reports.ts"
import { roles } from "./communities/roles.ts"
import { search } from "./messages/search.ts"
import type { Handlers } from "./server/handlers.ts"
import { serverBots } from "./communities/server-bots.ts"
import { servers } from "./communities/servers.ts"
import { settings } from "./accounts/settings.ts"
import { stickers } from "./communities/stickers.ts"
import { system } from "./service/system.ts"
import { operatorDashboard } from "./operators/dashboard.ts"
import { operatorOverview } from "./operators/overview.ts"
import { operatorSignIn } from "./operators/sign-in.ts"
import { operatorAccessTokens } from "./operators/access-tokens.ts"
import { operatorSecurity } from "./operators/security.ts"
import { operatorUsers } from "./operators/users.ts"
import { fileBlocks } from "./operators/file-blocks.ts"
import { reviews } from "./operators/reviews.ts"
import { tickets } from "./operators/tickets.ts"
import { telemetry } from "./service/telemetry.ts"
import { operatorLogs } from "./operators/logs.ts"
import { operatorTelemetry } from "./operators/telemetry.ts"
import { operatorAutomod } from "./operators/automod.ts"
import { trail } from "./operators/trail.ts"
import { countSignIns, type SignInCountNeeds } from "./shared/sign-in-outcomes.ts"
import { twoFactor } from "./accounts/two-factor.ts"
import { uploadSessions } from "./messages/upload-sessions.ts"
import { users } from "./accounts/users.ts"
import { voice } from "./voice/voice.ts"
import { webhooks } from "./messages/webhooks.ts"

/** Every resource with handlers for its routes. A new resource is one line here. */
const resources = [
  accountDeletion,
  attachments,
  auditLog,
  auth,
  automod,
  avatars,
  bots,
  channels,
  directs,
  emojis,
  exports,
  features,
  feedback,
  fileReports,
  icons,
  invites,
  emailLinks,
  members,
  messages,
  messagingSettings,
  moderation,
  notificationSettings,
  notifications,
  pushSubscriptions,
  oauth,
  overrides,
  passkeys,
  pins,
  polls,
  presence,
  reactions,
  readState,
  relationships,
  reports,
  roles,
  search,
  serverBots,
  servers,
  settings,
  stickers,
  system,
  twoFactor,
  uploadSessions,
  users,
  voice,
  webhooks,
  operatorSignIn,
  operatorOverview,
  operatorDashboard,
  tickets,
  reviews,
  fileBlocks,
  telemetry,
  operatorLogs,
  operatorTelemetry,
  operatorAutomod,
  trail,
  operatorUsers,
  operatorSecurity,
  operatorAccessTokens,
] as const

type Resource = (typeof resources)[number]
/** All that the resources need, together. */
export type HandlerNeeds = Resource extends (needs: infer Needs) => unknown ? Needs : never
type Intersection<Union> = (Union extends unknown ? (one: Union) => void : never) extends (all: infer All) => void
  ? All
  : never

/** A handler for every route of the contract: one that is missing does not compile. */
export function createHandlers(needs: HandlerNeeds & SignInCountNeeds): Handlers<typeof routes> {
  const made = resources.map(resource => resource(needs))
  return countSignIns(Object.assign({}, ...made) as Intersection<ReturnType<Resource>>, needs.telemetry.noteSignIn)
}
