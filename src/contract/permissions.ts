/** Permission flags of a server's roles. `granted`: `@everyone` has it when a server is created. `allows`: what for. What is
 * kept for clients is granted and shown, and nothing asks for it yet. */
export const permissions = {
  "server.manage": {
    granted: false,
    allows: "Change the server and its icon; what concerns emojis, stickers and invites, too",
  },
  "server.view_audit_log": { granted: false, allows: "Read the audit log" },
  "server.automod": { granted: false, allows: "Change the rules of auto-moderation and see what they caught" },
  "channels.manage": {
    granted: false,
    allows: "Create, change, move and delete channels; write in spite of slow mode",
  },
  "channels.view": { granted: true, allows: "See a channel and hear what happens in it" },
  "roles.manage": {
    granted: false,
    allows: "Create, change, move, give and delete roles below one's own; say what channels allow and deny them",
  },
  "members.kick": { granted: false, allows: "Remove members who rank lower, and time them out" },
  "members.ban": { granted: false, allows: "Ban and unban who ranks lower, and see who is banned" },
  "members.manage_nicknames": { granted: false, allows: "Change the nickname of members who rank lower" },
  "members.manage_roles": { granted: false, allows: "Give and take roles below one's own" },
  "invites.create": { granted: true, allows: "Invite to a channel" },
  "invites.manage": { granted: false, allows: "See and delete everybody's invites" },
  "emojis.manage": { granted: false, allows: "Create, rename and delete emojis and stickers" },
  "webhooks.manage": { granted: false, allows: "Create, change and delete webhooks" },
  "bans.view": { granted: false, allows: "See who is banned" },
  "messages.send": { granted: true, allows: "Write, and change what one wrote" },
  "messages.read": { granted: true, allows: "Read what was written" },
  "messages.manage": { granted: false, allows: "Delete what others wrote; pin messages; write in spite of slow mode" },
  "messages.embed_links": { granted: true, allows: "Show embeds in messages; bots may without it" },
  "messages.attach_files": { granted: true, allows: "Upload files, and show them in messages" },
  "messages.mention_everyone": {
    granted: false,
    allows: "Notify everybody by @everyone, whoever is online by @here, and the members of any role",
  },
  "messages.add_reactions": { granted: true, allows: "React to messages" },
  "messages.use_external_emojis": { granted: false, allows: "React with emojis of other servers that one is in" },
  "messages.bypass_slowmode": { granted: false, allows: "Write in spite of slow mode" },
  "voice.connect": { granted: true, allows: "Join voice channels" },
  "voice.speak": { granted: true, allows: "Kept for clients: being heard in voice channels" },
  "voice.mute_members": { granted: false, allows: "Kept for clients: muting others in voice channels" },
  "voice.deafen_members": { granted: false, allows: "Kept for clients: deafening others in voice channels" },
  "voice.move_members": { granted: false, allows: "Join voice channels that are full" },
  "events.manage": { granted: false, allows: "Kept for clients: planning events" },
  "events.view": { granted: true, allows: "Kept for clients: seeing planned events" },
  "templates.manage": { granted: false, allows: "Kept for clients: templates of the server" },
  "onboarding.manage": { granted: false, allows: "Kept for clients: how newcomers are received" },
  administrator: { granted: false, allows: "Everything, in every channel, whatever it denies" },
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
