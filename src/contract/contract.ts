import * as auth from "./auth.ts"
import * as channels from "./channels.ts"
import * as gateway from "./gateway.ts"
import * as invites from "./invites.ts"
import * as messages from "./messages.ts"
import type { EventDefinition } from "./registry.ts"
import * as servers from "./servers.ts"
import * as system from "./system.ts"
import * as users from "./users.ts"

/** Every REST route, by operation id. */
export const routes = {
  ...system.routes,
  ...auth.routes,
  ...users.routes,
  ...servers.routes,
  ...channels.routes,
  ...invites.routes,
  ...messages.routes,
}
export type Routes = typeof routes

/** Every gateway event, by wire name. */
export const events = {
  READY: gateway.ready,
  RESUMED: gateway.resumed,
  SESSION_POSITION: gateway.sessionPosition,
  GUILD_CREATE: servers.guildCreate,
  GUILD_DELETE: servers.guildDelete,
  GUILD_MEMBER_ADD: servers.guildMemberAdd,
  GUILD_MEMBER_REMOVE: servers.guildMemberRemove,
  CHANNEL_CREATE: channels.channelCreate,
  TYPING_START: channels.typingStart,
  MESSAGE_CREATE: messages.messageCreate,
  MESSAGE_UPDATE: messages.messageUpdate,
  MESSAGE_DELETE: messages.messageDelete,
} satisfies Record<string, EventDefinition>
export type EventName = keyof typeof events
