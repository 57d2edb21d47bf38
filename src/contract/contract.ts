import { z } from "zod"
import * as auth from "./auth.ts"
import * as channels from "./channels.ts"
import * as gateway from "./gateway.ts"
import type { ClientOp, ServerOp } from "./gateway-codes.ts"
import * as invites from "./invites.ts"
import * as messages from "./messages.ts"
import * as moderation from "./moderation.ts"
import * as overrides from "./overrides.ts"
import type { EventDefinition } from "./registry.ts"
import * as roles from "./roles.ts"
import * as servers from "./servers.ts"
import * as system from "./system.ts"
import * as users from "./users.ts"

/** Every REST route, by operation id. */
export const routes = {
  ...system.routes,
  ...auth.routes,
  ...users.routes,
  ...servers.routes,
  ...roles.routes,
  ...moderation.routes,
  ...channels.routes,
  ...overrides.routes,
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
  GUILD_MEMBER_UPDATE: roles.guildMemberUpdate,
  GUILD_BAN_ADD: moderation.guildBanAdd,
  GUILD_BAN_REMOVE: moderation.guildBanRemove,
  GUILD_ROLE_CREATE: roles.guildRoleCreate,
  GUILD_ROLE_UPDATE: roles.guildRoleUpdate,
  GUILD_ROLE_DELETE: roles.guildRoleDelete,
  CHANNEL_CREATE: channels.channelCreate,
  CHANNEL_UPDATE: channels.channelUpdate,
  CHANNEL_DELETE: channels.channelDelete,
  TYPING_START: channels.typingStart,
  MESSAGE_CREATE: messages.messageCreate,
  MESSAGE_UPDATE: messages.messageUpdate,
  MESSAGE_DELETE: messages.messageDelete,
  MESSAGE_DELETE_BULK: messages.messageDeleteBulk,
} satisfies Record<string, EventDefinition>
export type EventName = keyof typeof events

/** `d` of what a client sends, by opcode. Unknown keys are ignored. */
export const clientFrames = {
  HEARTBEAT: z.unknown(),
  IDENTIFY: gateway.Identify,
  RESUME: gateway.Resume,
  TYPING_START: gateway.Typing,
} satisfies Partial<Record<ClientOp, z.ZodType>>

/** `d` of what a client is sent, by opcode; dispatches are `events`. */
export const serverFrames = {
  HELLO: gateway.Hello,
  RECONNECT: z.null(),
  INVALID_SESSION: z.literal(false),
  HEARTBEAT_ACK: z.undefined(),
} satisfies Partial<Record<ServerOp, z.ZodType>>
