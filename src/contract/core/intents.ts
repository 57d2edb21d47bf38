/**
 * Gateway intents: bit → what it lets through. Bits 16 to 20 belong to newer clients: accepted and
 * ignored.
 */
export const intents = {
  GUILDS: 0,
  GUILD_MEMBERS: 1,
  GUILD_BANS: 2,
  GUILD_EMOJIS: 3,
  GUILD_INTEGRATIONS: 4,
  GUILD_WEBHOOKS: 5,
  GUILD_INVITES: 6,
  GUILD_VOICE_STATES: 7,
  GUILD_PRESENCES: 8,
  GUILD_MESSAGES: 9,
  GUILD_MESSAGE_REACTIONS: 10,
  GUILD_MESSAGE_TYPING: 11,
  DIRECT_MESSAGES: 12,
  DIRECT_MESSAGE_REACTIONS: 13,
  DIRECT_MESSAGE_TYPING: 14,
  MESSAGE_CONTENT: 15,
} as const

export type Intent = keyof typeof intents

export const bitOf = (intent: Intent): number => 1 << intents[intent]

/** Every bit that means something here. */
export const allIntents = 0xffff
/** What a client gets that names none: all but members, presences and message content. */
export const defaultIntents = 32509
/** The largest mask we accept; above it the connection closes with 4013. */
export const largestIntents = 2_097_151
