import { permissionNames, type Permission } from "../../contract/core/permissions.ts"

/**
 * A set of permissions as one number: the sum of two to the power of their bits. It is exact in
 * JavaScript, in JSON and in a `bigint` column.
 */
export type PermissionMask = number

/**
 * The bit of each permission. Rows hold it and workers of other versions read it, so a bit means
 * the same for ever: a new permission takes the next one, and that of one that is gone stays free.
 * Numbers are exact up to bit 52.
 */
export const permissionBits = {
  "server.manage": 0,
  "server.view_audit_log": 1,
  "server.automod": 2,
  "channels.manage": 3,
  "channels.view": 4,
  "roles.manage": 5,
  "members.kick": 6,
  "members.ban": 7,
  "members.manage_nicknames": 8,
  "members.manage_roles": 9,
  "invites.create": 10,
  "invites.manage": 11,
  "emojis.manage": 12,
  "webhooks.manage": 13,
  "bans.view": 14,
  "messages.send": 15,
  "messages.read": 16,
  "messages.manage": 17,
  "messages.embed_links": 18,
  "messages.attach_files": 19,
  "messages.mention_everyone": 20,
  "messages.add_reactions": 21,
  "messages.use_external_emojis": 22,
  "messages.bypass_slowmode": 23,
  "voice.connect": 24,
  "voice.speak": 25,
  "voice.mute_members": 26,
  "voice.deafen_members": 27,
  "voice.move_members": 28,
  "events.manage": 29,
  "events.view": 30,
  "templates.manage": 31,
  "onboarding.manage": 32,
  administrator: 33,
} as const satisfies Record<Permission, number>

export const maskOf = (names: Iterable<Permission>): PermissionMask =>
  [...new Set(names)].reduce((mask, name) => mask + 2 ** permissionBits[name], 0)

/** Operators take the lower 32 bits of a number; the higher ones are what is left of a division. */
export function includes(mask: PermissionMask, permission: Permission): boolean {
  const bit = permissionBits[permission]
  return ((bit < 32 ? mask >>> bit : (mask / 2 ** 32) >>> (bit - 32)) & 1) === 1
}

/** In the order in which clients see them. Bits of permissions that this version does not know say nothing. */
export const namesIn = (mask: PermissionMask): Permission[] => permissionNames.filter(name => includes(mask, name))
