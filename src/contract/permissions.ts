/** Permission flags of a server's roles. `granted`: `@everyone` has it when a server is created. */
export const permissions = {
  "server.manage": { granted: false },
  "server.view_audit_log": { granted: false },
  "server.automod": { granted: false },
  "channels.manage": { granted: false },
  "channels.view": { granted: true },
  "roles.manage": { granted: false },
  "members.kick": { granted: false },
  "members.ban": { granted: false },
  "members.manage_nicknames": { granted: false },
  "members.manage_roles": { granted: false },
  "invites.create": { granted: true },
  "invites.manage": { granted: false },
  "emojis.manage": { granted: false },
  "webhooks.manage": { granted: false },
  "bans.view": { granted: false },
  "messages.send": { granted: true },
  "messages.read": { granted: true },
  "messages.manage": { granted: false },
  "messages.embed_links": { granted: true },
  "messages.attach_files": { granted: true },
  "messages.mention_everyone": { granted: false },
  "messages.add_reactions": { granted: true },
  "messages.use_external_emojis": { granted: false },
  "messages.bypass_slowmode": { granted: false },
  "voice.connect": { granted: true },
  "voice.speak": { granted: true },
  "voice.mute_members": { granted: false },
  "voice.deafen_members": { granted: false },
  "voice.move_members": { granted: false },
  "events.manage": { granted: false },
  "events.view": { granted: true },
  "templates.manage": { granted: false },
  "onboarding.manage": { granted: false },
  administrator: { granted: false },
} as const satisfies Record<string, { granted: boolean }>

export type Permission = keyof typeof permissions
export const permissionNames = Object.keys(permissions) as Permission[]

/** Other names under which clients know some of them. */
const aliases: ReadonlyMap<string, Permission> = new Map([
  ["channel.create", "channels.manage"],
  ["message.send", "messages.send"],
  ["message.manage", "messages.manage"],
] as const)

/** The permission that a name means; undefined for names that mean nothing here. */
export const permissionOf = (name: string): Permission | undefined =>
  aliases.get(name) ?? (Object.hasOwn(permissions, name) ? (name as Permission) : undefined)
