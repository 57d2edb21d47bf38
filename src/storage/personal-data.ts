import type { NamedTable, OtherTable } from "../domain/core/personal-data.ts"
import { personalData as accessTokens } from "./service/access-tokens.ts"
import { personalData as accessUses } from "./service/access-uses.ts"
import { personalData as addressBlocks } from "./service/address-blocks.ts"
import { personalData as auditLog } from "./communities/audit-log.ts"
import { personalData as automod } from "./communities/automod.ts"
import { personalData as avatars } from "./accounts/avatars.ts"
import { personalData as bans } from "./communities/bans.ts"
import { personalData as channels } from "./communities/channels.ts"
import { personalData as deliveries } from "./messages/deliveries.ts"
import { personalData as directs } from "./social/directs.ts"
import { personalData as emojis } from "./communities/emojis.ts"
import { personalData as exports } from "./accounts/exports.ts"
import { personalData as feedback } from "./service/feedback.ts"
import { personalData as fileBlocks } from "./messages/file-blocks.ts"
import { personalData as files } from "./messages/files.ts"
import { personalData as guildMembers } from "./communities/guild-members.ts"
import { personalData as icons } from "./communities/icons.ts"
import { personalData as imports } from "./imports.ts"
import { personalData as invites } from "./communities/invites.ts"
import { personalData as lanes } from "./core/lanes.ts"
import { personalData as mails } from "./accounts/mails.ts"
import { personalData as mentions } from "./messages/mentions.ts"
import { deletionsPersonalData as messageDeletions, personalData as messages } from "./messages/messages.ts"
import { personalData as messagingSettings } from "./accounts/messaging-settings.ts"
import { personalData as migrate } from "./core/migrate.ts"
import { personalData as notificationSettings } from "./accounts/notification-settings.ts"
import { personalData as notifications } from "./accounts/notifications.ts"
import { personalData as oauth } from "./accounts/oauth.ts"
import { personalData as oneTimeTokens } from "./accounts/one-time-tokens.ts"
import { personalData as operators } from "./operators/operators.ts"
import { personalData as operatorTrail } from "./operators/trail.ts"
import { personalData as operatorRequests } from "./service/operator-requests.ts"
import { personalData as overrides } from "./communities/overrides.ts"
import { personalData as passkeys } from "./accounts/passkeys.ts"
import { personalData as placement } from "./core/placement.ts"
import { personalData as polls } from "./messages/polls.ts"
import { personalData as presences } from "./social/presences.ts"
import { personalData as pushSubscriptions } from "./accounts/push-subscriptions.ts"
import { personalData as reactions } from "./messages/reactions.ts"
import { personalData as readState } from "./messages/read-state.ts"
import { personalData as relationships } from "./social/relationships.ts"
import { personalData as reports } from "./messages/reports.ts"
import { personalData as search } from "./messages/search.ts"
import { personalData as serverStatus } from "./service/server-status.ts"
import { personalData as servers } from "./communities/servers.ts"
import { personalData as sessions } from "./accounts/sessions.ts"
import { personalData as settings } from "./accounts/settings.ts"
import { personalData as stickers } from "./communities/stickers.ts"
import { personalData as tells } from "./core/tells.ts"
import { personalData as telemetry } from "./service/telemetry.ts"
import { personalData as thumbnails } from "./messages/thumbnails.ts"
import { personalData as uploadSessions } from "./messages/upload-sessions.ts"
import { personalData as uploads } from "./messages/uploads.ts"
import { personalData as bannedUsernames } from "./accounts/banned-usernames.ts"
import { personalData as userNotes } from "./accounts/user-notes.ts"
import { personalData as users } from "./accounts/users.ts"
import { personalData as voice } from "./voice/voice.ts"
import { personalData as webhooks } from "./messages/webhooks.ts"

/**
 * Every table of the database, as the storage files declare them. tests/accounts/export.test.ts
 * compares the list with the database, tests/accounts/account-deletion.test.ts looks at what a
 * purge has left. People are told in docs/operate/privacy.md.
 */
const declared = [
  // Exports give them in this order.
  users,
  userNotes,
  avatars,
  sessions,
  pushSubscriptions,
  oneTimeTokens,
  passkeys,
  mails,
  oauth,
  settings,
  messagingSettings,
  presences,
  deliveries,
  relationships,
  notifications,
  servers,
  guildMembers,
  messageDeletions,
  notificationSettings,
  auditLog,
  webhooks,
  emojis,
  stickers,
  automod,
  bans,
  overrides,
  invites,
  voice,
  exports,
  imports,
  operatorRequests,
  uploads,
  uploadSessions,
  fileBlocks,
  reports,
  feedback,
  addressBlocks,
  reactions,
  readState,
  directs,
  polls,
  messages,
  // These hold nothing about a person.
  channels,
  mentions,
  search,
  placement,
  lanes,
  migrate,
  icons,
  serverStatus,
  files,
  thumbnails,
  tells,
  accessTokens,
  accessUses,
  bannedUsernames,
  operators,
  operatorTrail,
  telemetry,
]

/** In the order in which an export gives them. */
export const personalTables: Readonly<Record<string, NamedTable>> = Object.fromEntries(
  declared.flatMap(({ personal = {} }) =>
    Object.entries(personal).map(([name, declaration]) => [name, { table: name, ...declaration }]),
  ),
)

/** Tables that hold nothing about a person. */
export const otherTables: Readonly<Record<string, OtherTable>> = Object.fromEntries(
  declared.flatMap(({ others = {} }) => Object.entries(others)),
)

/** What an export does not hold, as it says itself. */
export const leftOutOfExports: readonly { readonly name: string; readonly column: string; readonly reason: string }[] =
  Object.entries(personalTables).flatMap(([name, { leftOut = {}, leftOutOf = {}, othersRows = {} }]) => [
    ...Object.entries(leftOutOf).flatMap(([column, keys]) =>
      Object.entries(keys).map(([key, reason]) => ({ name, column: `${column}.${key}`, reason })),
    ),
    ...Object.entries(leftOut).map(([column, reason]) => ({ name, column, reason })),
    ...Object.entries(othersRows).map(([column, reason]) => ({ name, column, reason })),
  ])
