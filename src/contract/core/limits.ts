/**
 * Fixed limits of the interface that several resources share, in characters (code points), items or
 * seconds, and in bytes where the name says so. A limit of one resource stands beside it.
 */
export const limits = {
  messageCharacters: 4000,
  nonceCharacters: 64,
  /** Of REQUEST_GUILD_MEMBERS. */
  memberQuery: 100,
  memberIdsPerRequest: 100,
  /** Of one request that says of several up to where they are read. */
  channelsPerAck: 500,
  /** Readers of a message that are named to its author: those who have read furthest. */
  readersNamed: 1_000,
  pageSize: 100,
  defaultPageSize: 50,
  /**
   * Of a list of messages as JSON: history, pins, hits of a search. One message is shown, however
   * long it is.
   */
  messagesPageBytes: 1_000_000,
  searchPage: 25,
  searchQuery: 512,
  /** Of `/search/users`: fewest characters, and most users that one beginning of a name finds. */
  userQuery: 2,
  usersFound: 100,
  serverName: { min: 2, max: 100 },
  serverDescription: 1000,
  serverCategory: 50,
  /** Servers that a user is in, owned or not, unless the user's tier lets them own more. */
  serversPerUser: 200,
  channelName: { min: 1, max: 100 },
  channelTopic: 1024,
  /** The largest number that PostgreSQL keeps as an `integer`. */
  channelPosition: 2_147_483_647,
  slowmodeSeconds: 21_600,
  username: { min: 3, max: 32 },
  channelsPerServer: 500,
  rolesPerServer: 250,
  overridesPerChannel: 500,
  /** In all channels of a server together. */
  overridesPerServer: 5_000,
  /**
   * Changes that decide who views channels, of a server: so many at once, then so many per second.
   * Everybody together, everybody but the owner together, and each of those.
   */
  viewChangesPerServer: {
    all: { burst: 20, perSecond: 2 },
    others: { burst: 15, perSecond: 1.5 },
    each: { burst: 10, perSecond: 1 },
    /** A request that sends so many events to all who view a channel, or all members, counts as a change. */
    eventsPerChange: 50,
  },
  roleName: { min: 1, max: 100 },
  banReason: 512,
  bansPage: 1000,
  nickname: 32,
  timeoutSeconds: 28 * 86_400,
  timeoutReason: 512,
  membersPage: { most: 1000, usual: 100 },
  /** Those that still let somebody in. */
  invitesPerServer: 1000,
  /**
   * Of a server's invites that expired or were used up, those that the list still shows: the ones
   * that ended last.
   */
  endedInvitesKept: 1000,
  inviteAge: 31_536_000,
  inviteUses: 1_000_000,
  membersPerServer: 250_000,
  inviteDefaultAge: 86_400,
  usersInVoiceChannel: 99,
  bitrate: { min: 8_000, usual: 64_000, max: 384_000 },
  /** In all voice channels of a server together. */
  voiceMembersPerServer: 2_000,
  sdpCharacters: 32_768,
  candidateCharacters: 4_096,
  friendRequestMessage: 256,
  /** Of somebody's conversations with others, those in which something was said last. */
  directsListed: 1000,
  /** Friends, incoming requests, outgoing requests, blocks: so many of each. */
  relationshipsOfAStatus: 1000,
  settingKeyCharacters: 100,
  settingValueCharacters: 10_000,
  settingsPerUser: 100,
  notificationsKept: 1000,
  /** Servers and channels for which a user has chosen notifications. */
  notificationSettings: 1000,
  /** What administrators note about somebody's tier. */
  tierNotes: 1000,
  /** Badges of a user that are shown. */
  badgesShown: 5,
  urlCharacters: 2048,
  webhookName: { min: 1, max: 80 },
  webhookMessageCharacters: 2000,
  webhookUsername: 80,
  webhooksPerChannel: 50,
  webhooksPerServer: 100,
  /**
   * What all webhooks of a server send together, and all that one user holds the tokens of: so much
   * at once, and in the long run so much per second. `bytes`: content and embeds, as JSON.
   */
  webhookBurstMessages: 100,
  webhookMessagesPerSecond: 5,
  webhookBurstBytes: 1_048_576,
  webhookBytesPerSecond: 32_768,
  embedsPerMessage: 10,
  embed: {
    title: 256,
    description: 4096,
    footer: 2048,
    author: 256,
    fields: 25,
    fieldName: 256,
    fieldValue: 1024,
    /** Of all embeds of a message together. */
    allCharacters: 6000,
    /** Of their JSON in UTF-8, with what they hold beside text. */
    allBytes: 49_152,
    /**
     * Of their keys and items together, at every depth: each takes many times the memory that it
     * takes in JSON.
     */
    allValues: 1_500,
  },
  attachmentsPerMessage: 10,
  filename: 255,
  /** Bytes of the largest file that anybody may send: that of the tier with the highest limit. */
  attachmentBytes: 524_288_000,
  reactionsPerMessage: 20,
  emojiCharacters: 32,
  messagesPerDeletion: { min: 2, max: 100 },
  /** Different users and roles of one message that are looked at; what comes after them is text. */
  mentionsPerMessage: 100,
  /** Of what a notification shows of a message. */
  previewCharacters: 200,
  botsPerOwner: 25,
  /** Servers that a bot is in. */
  serversPerBot: 500,
  /** Of them, those that one user owns who is not the bot's owner, together with that user's bots. */
  serversOfOneOwnerPerBot: 10,
  emojiBytes: 262_144,
  /** Pixels of a side. */
  emojiSide: 1024,
  /** Static ones, and as many animated ones. */
  emojisPerServer: 50,
  stickerBytes: 524_288,
  stickerSide: 2048,
  stickerName: { min: 2, max: 30 },
  tagsPerSticker: 20,
  stickerTag: 30,
  stickersPerPack: 50,
  packsPerServer: 50,
  /**
   * Of each server's stickers, the most used first, those that are looked at to suggest some when
   * no server is named.
   */
  stickersLookedUp: 100,
  /** Words of a text by which stickers are suggested. */
  wordsLookedUp: 100,
  /** Characters at its end in which their names are looked for. */
  charactersLookedUp: 200,
  iconBytes: 2_097_152,
  avatarBytes: 5_242_880,
  /** Pixels of a side of an avatar or an icon as it is uploaded, and as it is kept. */
  avatarSide: 16_384,
  avatarSideKept: 512,
  /** Of a picture that is decoded: pixels of a frame, frames, and pixels of all frames together. */
  picturePixels: 50_000_000,
  pictureFrames: 1_000,
  framePixels: 50_000_000,
  /** Of a JPEG: encoders make a dozen. libvips goes through all of them before anything can stop it. */
  pictureScans: 64,
  /** Of a voice message. */
  waveformCharacters: 400,
  /** Of an attachment, if it is to have thumbnails: bytes, and pixels that come line by line. */
  thumbnailBytes: 26_214_400,
  thumbnailPixels: 150_000_000,
  automod: {
    rulesPerServer: 100,
    /** Bytes of the configs and actions of a server's rules together, as JSON. */
    bytesPerServer: 262_144,
    nameCharacters: 100,
    keywords: 1_000,
    keywordCharacters: 100,
    patterns: 50,
    patternCharacters: 500,
    /** Instructions of one pattern as it is compiled; of all the patterns of a server together. */
    patternSize: 150,
    patternSizePerServer: 300,
    /** Instructions times characters that the patterns of a server may take for one message. */
    patternStepsPerMessage: 4_000_000,
    domains: 500,
    codes: 500,
    categories: 50,
    actions: 10,
    /** Of an action, as JSON. */
    metadataCharacters: 1_000,
    /** Of a classifier's key or header, and of the body of its requests, as JSON. */
    secretCharacters: 500,
    requestCharacters: 4_000,
    /** The longest that a classifier is waited for. */
    classifierSeconds: 30,
    usualTimeoutSeconds: 300,
    /** How far `message_spam` looks back: seconds, and messages of an author in a channel. */
    windowSeconds: 3_600,
    postsRemembered: 30,
    matchedCharacters: 200,
    violationDays: 90,
    violationsKept: 10_000,
    /** Moderators that are told of one violation. */
    moderatorsAlerted: 50,
  },
} as const

/**
 * One bucket of the limiter. Capacity is `requests + burst` in `seconds`; what `scope` adds to the
 * caller makes the key.
 */
export interface RateLimit {
  readonly requests: number
  readonly seconds: number
  readonly burst: number
  /**
   * `token`: full at first, refilled evenly. `sliding`: so many within any stretch of `seconds`.
   * `fixed`: so many in a window that begins with its first request.
   */
  readonly algorithm: "token" | "sliding" | "fixed"
  /**
   * `route` and `user`: the caller's own, of this route; without a session the address's.
   * `resource`: as `route`, and for each first id in the path. `ip`: of the address, for all
   * callers. `webhook`: of the first id in the path with the token behind it, for all callers.
   */
  readonly scope: "route" | "resource" | "user" | "ip" | "webhook"
  /** How often in the long run, in fixed windows. */
  readonly caps?: readonly RateCap[]
}
export interface RateCap {
  readonly requests: number
  readonly seconds: number
}

/** Buckets that every counted request meets; a route may have one of its own beside them. */
export const commonRateLimits = {
  global: { requests: 50, seconds: 1, burst: 10, algorithm: "token", scope: "user" },
  user: { requests: 70, seconds: 60, burst: 20, algorithm: "sliding", scope: "user" },
  ip: { requests: 70, seconds: 60, burst: 10, algorithm: "sliding", scope: "ip" },
} as const satisfies Record<string, RateLimit>

type Row = [
  label: string,
  requests: number,
  seconds: number,
  burst: number,
  algorithm: RateLimit["algorithm"],
  scope: RateLimit["scope"],
  ...caps: RateCap[],
]
const rows: Row[] = [
  ["DELETE /channels/{id}/messages/{msg_id}", 5, 5, 2, "sliding", "resource"],
  ["DELETE /channels/{id}/messages/{msg_id}/reactions/{emoji}", 1, 0.25, 1, "token", "resource"],
  ["PUT /channels/{id}/messages/{msg_id}/reactions/{emoji}", 1, 0.25, 1, "token", "resource"],
  ["DELETE /servers/{id}", 1, 60, 0, "fixed", "user"],
  ["GET /admin/database/pool-health", 120, 60, 20, "sliding", "route"],
  ["GET /admin/telemetry/stats", 120, 60, 20, "sliding", "route"],
  ["GET /admin/ui-dashboard", 120, 60, 20, "sliding", "route"],
  ["GET /channels/{id}/messages", 10, 10, 5, "sliding", "resource"],
  ["GET /qr", 20, 60, 5, "sliding", "ip"],
  ["GET /relationships/@me", 100, 60, 20, "sliding", "user"],
  ["GET /servers/{id}", 20, 10, 10, "sliding", "route"],
  ["GET /servers/{id}/channels", 100, 60, 20, "sliding", "route"],
  ["GET /users/@me", 30, 60, 10, "sliding", "user"],
  ["PATCH /channels/{id}/messages/{msg_id}", 5, 5, 2, "sliding", "resource"],
  ["PATCH /users/@me", 2, 60, 0, "fixed", "user"],
  ["POST /auth/2fa", 5, 60, 2, "sliding", "route"],
  ["POST /auth/login", 5, 60, 0, "fixed", "route"],
  ["POST /auth/register", 3, 60, 0, "fixed", "route"],
  ["POST /channels/{id}/messages", 5, 5, 3, "token", "resource"],
  ["POST /feedback", 5, 3600, 0, "fixed", "user", { requests: 20, seconds: 86_400 }],
  ["POST /media/upload", 10, 60, 2, "token", "user"],
  ["POST /relationships", 5, 60, 2, "sliding", "user"],
  ["POST /relationships/block", 10, 60, 5, "sliding", "user"],
  ["POST /servers", 10, 60, 2, "sliding", "user"],
  ["POST /telemetry", 30, 60, 5, "token", "ip"],
  ["PATCH /users/@me/bots/{id}", 5, 60, 0, "fixed", "user"],
  ["POST /users/@me/bots", 10, 3600, 0, "fixed", "user"],
  ["POST /users/@me/push-subscriptions", 10, 60, 0, "fixed", "user"],
  ["POST /users/@me/bots/{id}/token", 20, 3600, 0, "fixed", "user"],
  ["PUT /servers/{id}/bots/{id}", 10, 60, 2, "sliding", "user"],
  ["POST /webhooks", 5, 60, 2, "sliding", "user"],
  ["POST /webhooks/{id}/{token}", 5, 2, 5, "token", "webhook"],
  // Work of the server's own, done for somebody.
  ["THUMBNAIL_GEN", 60, 60, 10, "token", "user"],
]

/** The buckets of routes, by label: a route has the one of its label, and no other. */
export const routeRateLimits: ReadonlyMap<string, RateLimit> = new Map(
  rows.map(([label, requests, seconds, burst, algorithm, scope, ...caps]) => [
    label,
    { requests, seconds, burst, algorithm, scope, ...(caps.length > 0 && { caps }) },
  ]),
)

/** The limits as they hold on a server. */
export interface RateLimits {
  readonly common: Readonly<Record<keyof typeof commonRateLimits, RateLimit>>
  /** By label. */
  readonly routes: ReadonlyMap<string, RateLimit>
}
export const defaultRateLimits: RateLimits = { common: commonRateLimits, routes: routeRateLimits }

/** Routes that take from one bucket together, under the label of another. */
const sharedLabels: ReadonlyMap<string, string> = new Map([
  ["POST /channels/{id}/attachments", "POST /media/upload"],
  ["POST /media/upload/session", "POST /media/upload"],
  ["POST /telemetry/response-times", "POST /telemetry"],
])

/** What limits call a route: `METHOD /template`, ids written `{id}`, a message's `{msg_id}`. */
export function labelOf({ method, path }: { readonly method: string; readonly path: string }): string {
  const template = path.replace(/:(\w+)/g, (_, name: string) => {
    if (name === "message_id") return "{msg_id}"
    return name.endsWith("_id") ? "{id}" : `{${name}}`
  })
  const label = `${method} ${template}`
  return sharedLabels.get(label) ?? label
}

/**
 * IPv6: a limit by address counts a /64. Who has one often has the /56 or the /48 around it, so
 * these are bounded, too, by so many times as much as a /64.
 */
export const widerPrefixes = { times56: 4, times48: 16 } as const

/** Failed token checks of one address. */
export const failedTokenLimit = { requests: 100, seconds: 60 } as const
