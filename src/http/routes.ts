import type { routes } from "../contract/contract.ts"
import { accountDeletion } from "./account-deletion.ts"
import { attachments } from "./attachments.ts"
import { auditLog } from "./audit-log.ts"
import { auth } from "./auth.ts"
import { automod } from "./automod.ts"
import { channels } from "./channels.ts"
import { directs } from "./directs.ts"
import { emojis } from "./emojis.ts"
import { exports } from "./exports.ts"
import { features } from "./features.ts"
import { icons } from "./icons.ts"
import { invites } from "./invites.ts"
import { mailed } from "./mailed.ts"
import { members } from "./members.ts"
import { messages } from "./messages.ts"
import { messagingSettings } from "./messaging-settings.ts"
import { moderation } from "./moderation.ts"
import { notificationSettings } from "./notification-settings.ts"
import { notifications } from "./notifications.ts"
import { oauth } from "./oauth.ts"
import { overrides } from "./overrides.ts"
import { pins } from "./pins.ts"
import { polls } from "./polls.ts"
import { presence } from "./presence.ts"
import { reactions } from "./reactions.ts"
import { readState } from "./read-state.ts"
import { relationships } from "./relationships.ts"
import { roles } from "./roles.ts"
import { search } from "./search.ts"
import type { Handlers } from "./server/handlers.ts"
import { servers } from "./servers.ts"
import { settings } from "./settings.ts"
import { stickers } from "./stickers.ts"
import { system } from "./system.ts"
import { twoFactor } from "./two-factor.ts"
import { users } from "./users.ts"
import { voice } from "./voice.ts"
import { webhooks } from "./webhooks.ts"

/** Every resource with handlers for its routes. A new resource is one line here. */
const resources = [
  accountDeletion,
  attachments,
  auditLog,
  auth,
  automod,
  channels,
  directs,
  emojis,
  exports,
  features,
  icons,
  invites,
  mailed,
  members,
  messages,
  messagingSettings,
  moderation,
  notificationSettings,
  notifications,
  oauth,
  overrides,
  pins,
  polls,
  presence,
  reactions,
  readState,
  relationships,
  roles,
  search,
  servers,
  settings,
  stickers,
  system,
  twoFactor,
  users,
  voice,
  webhooks,
] as const

type Resource = (typeof resources)[number]
/** All that the resources need, together. */
export type HandlerNeeds = Resource extends (needs: infer Needs) => unknown ? Needs : never
type Intersection<Union> = (Union extends unknown ? (one: Union) => void : never) extends (all: infer All) => void
  ? All
  : never

/** A handler for every route of the contract: one that is missing does not compile. */
export function createHandlers(needs: HandlerNeeds): Handlers<typeof routes> {
  const made = resources.map(resource => resource(needs))
  return Object.assign({}, ...made) as Intersection<ReturnType<Resource>>
}
