/**
 * Permission flags of a server's roles. `granted`: `@everyone` has it when a server is created.
 * `allows`: what for. What is kept for clients is granted and shown, and nothing asks for it yet.
 */
export const permissions = {
  "server.manage": {
    granted: false,
    allows: "Change the server and its icon. Includes managing emoji, stickers and invites",
  },
  "server.view_audit_log": { granted: false, allows: "Read the audit log" },
  "server.automod": { granted: false, allows: "Change the auto-moderation rules and see violations" },
  "channels.manage": {
    granted: false,
    allows: "Create, change, move and delete channels; send messages without slow mode",
  },
  "channels.view": { granted: true, allows: "View a channel and receive its events" },
  "roles.manage": {
    granted: false,
    allows: "Create, change, move, assign and delete roles below one's own; change permission overrides of channels",
  },
  "members.kick": { granted: false, allows: "Remove and time out members who rank lower" },
  "members.ban": { granted: false, allows: "Ban and unban users who rank lower, and list bans" },
  "members.manage_nicknames": { granted: false, allows: "Change the nickname of members who rank lower" },
  "members.manage_roles": { granted: false, allows: "Assign and remove roles below one's own" },
  "invites.create": { granted: true, allows: "Create invites" },
  "invites.manage": { granted: false, allows: "List and delete all invites" },
  "emojis.manage": { granted: false, allows: "Create, rename and delete emoji and stickers" },
  "webhooks.manage": { granted: false, allows: "Create, change and delete webhooks" },
  "bans.view": { granted: false, allows: "List bans" },
  "messages.send": { granted: true, allows: "Send messages, and edit one's own" },
  "messages.read": { granted: true, allows: "Read messages" },
  "messages.manage": {
    granted: false,
    allows: "Delete other users' messages; pin messages; send messages without slow mode",
  },
  "messages.embed_links": { granted: true, allows: "Send embeds. Bots may send them without it" },
  "messages.attach_files": { granted: true, allows: "Upload files and attach them to messages" },
  "messages.mention_everyone": {
    granted: false,
    allows: "Notify all members with @everyone, online members with @here, and the members of any role",
  },
  "messages.add_reactions": { granted: true, allows: "React to messages" },
  "messages.use_external_emojis": {
    granted: false,
    allows: "React with emoji of other servers that the user is a member of",
  },
  "messages.bypass_slowmode": { granted: false, allows: "Send messages without slow mode" },
  "voice.connect": { granted: true, allows: "Join voice channels" },
  "voice.speak": { granted: true, allows: "Stored for clients: speaking in voice channels" },
  "voice.mute_members": { granted: false, allows: "Stored for clients: muting others in voice channels" },
  "voice.deafen_members": { granted: false, allows: "Stored for clients: deafening others in voice channels" },
  "voice.move_members": { granted: false, allows: "Join voice channels that are full" },
  "events.manage": { granted: false, allows: "Stored for clients: managing events" },
  "events.view": { granted: true, allows: "Stored for clients: viewing events" },
  "templates.manage": { granted: false, allows: "Stored for clients: managing server templates" },
  "onboarding.manage": { granted: false, allows: "Stored for clients: managing the welcome screen" },
  administrator: { granted: false, allows: "Everything, in every channel, regardless of overrides" },
} as const satisfies Record<string, { granted: boolean; allows: string }>

export type Permission = keyof typeof permissions
export const permissionNames = Object.keys(permissions) as Permission[]

/** Other names under which clients know some of them. */
export const aliases: ReadonlyMap<string, Permission> = new Map([
  ["channel.create", "channels.manage"],
  ["message.send", "messages.send"],
  ["message.manage", "messages.manage"],
] as const)

/** The other names, and that of being a member. */
export const aliasNames = ["server.view", ...aliases.keys()]

/** The permission that a name means; undefined for names that mean nothing here. */
export const permissionOf = (name: string): Permission | undefined =>
  aliases.get(name) ?? (Object.hasOwn(permissions, name) ? (name as Permission) : undefined)
