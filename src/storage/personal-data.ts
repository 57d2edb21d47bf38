import type { NamedTable, OtherTable } from "../domain/personal-data.ts"
import { personalData as accessTokens } from "./access-tokens.ts"
import { personalData as addressBlocks } from "./address-blocks.ts"
import { personalData as auditLog } from "./audit-log.ts"
import { personalData as automod } from "./automod.ts"
import { personalData as bans } from "./bans.ts"
import { personalData as channels } from "./channels.ts"
import { personalData as deliveries } from "./deliveries.ts"
import { personalData as directs } from "./directs.ts"
import { personalData as emojis } from "./emojis.ts"
import { personalData as exports } from "./exports.ts"
import { personalData as files } from "./files.ts"
import { personalData as guildMembers } from "./guild-members.ts"
import { personalData as icons } from "./icons.ts"
import { personalData as invites } from "./invites.ts"
import { personalData as lanes } from "./lanes.ts"
import { personalData as mails } from "./mails.ts"
import { personalData as mentions } from "./mentions.ts"
import { deletionsPersonalData as messageDeletions, personalData as messages } from "./messages.ts"
import { personalData as messagingSettings } from "./messaging-settings.ts"
import { personalData as migrate } from "./migrate.ts"
import { personalData as notificationSettings } from "./notification-settings.ts"
import { personalData as notifications } from "./notifications.ts"
import { personalData as oauth } from "./oauth.ts"
import { personalData as oneTimeTokens } from "./one-time-tokens.ts"
import { personalData as operatorRequests } from "./operator-requests.ts"
import { personalData as overrides } from "./overrides.ts"
import { personalData as pins } from "./pins.ts"
import { personalData as placement } from "./placement.ts"
import { personalData as polls } from "./polls.ts"
import { personalData as presences } from "./presences.ts"
import { personalData as reactions } from "./reactions.ts"
import { personalData as readState } from "./read-state.ts"
import { personalData as relationships } from "./relationships.ts"
import { personalData as search } from "./search.ts"
import { personalData as serverStatus } from "./server-status.ts"
import { personalData as servers } from "./servers.ts"
import { personalData as sessions } from "./sessions.ts"
import { personalData as settings } from "./settings.ts"
import { personalData as stickers } from "./stickers.ts"
import { personalData as tells } from "./tells.ts"
import { personalData as uploads } from "./uploads.ts"
import { personalData as users } from "./users.ts"
import { personalData as voice } from "./voice.ts"
import { personalData as webhooks } from "./webhooks.ts"

/**
 * Every table of the database, as the storage files declare them. tests/export.test.ts compares
 * the list with the database, tests/account-deletion.test.ts looks at what a purge has left.
 * People are told in docs/operate/privacy.md.
 */
const declared = [
  // Exports give them in this order.
  users,
  sessions,
  oneTimeTokens,
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
  operatorRequests,
  uploads,
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
  pins,
  icons,
  serverStatus,
  files,
  tells,
  accessTokens,
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
