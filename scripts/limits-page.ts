import { clusterConfig } from "../cluster.config.ts"
import { resourceLimits } from "../src/contract/contract.ts"
import { refused, type LimitNote, type LimitNotes } from "../src/contract/core/limit-notes.ts"
import { limits } from "../src/contract/core/limits.ts"

const cut = (unit: string, beyond: string): LimitNote => ({ unit, beyond })
const chosen = (unit: string): LimitNote => ({ unit, beyond: "the value where the client names none" })

/** A note for each number, however deep it stands. */
type DeepNotes<T> = { readonly [K in keyof T]: T[K] extends number ? LimitNote : DeepNotes<T[K]> }

const config = (unit: string) => refused(unit, "invalid_automod_config")
const automod: DeepNotes<typeof limits.automod> = {
  rulesPerServer: refused("rules", "automod_limit"),
  bytesPerServer: refused("bytes of configs and actions as JSON", "automod_limit"),
  nameCharacters: refused("characters"),
  keywords: config("keywords"),
  keywordCharacters: config("characters"),
  patterns: config("patterns"),
  patternCharacters: config("characters"),
  patternSize: config("instructions of a compiled pattern"),
  patternSizePerServer: refused("instructions of all patterns of a server", "automod_limit"),
  patternStepsPerMessage: cut(
    "instructions times characters of a message",
    "patterns that would take more do not see what stands beside the text",
  ),
  domains: config("domains"),
  codes: config("invite codes"),
  categories: config("categories"),
  actions: refused("actions", "invalid_automod_action"),
  metadataCharacters: refused("characters of an action's metadata as JSON", "invalid_automod_action"),
  secretCharacters: refused("characters of a classifier's key or header"),
  requestCharacters: refused("characters of the body of a classifier's requests, as JSON"),
  classifierSeconds: refused("seconds"),
  usualTimeoutSeconds: chosen("seconds"),
  windowSeconds: config("seconds"),
  postsRemembered: config("messages of an author in a channel"),
  matchedCharacters: cut("characters", "the matched text is shortened in the violation"),
  violationDays: cut("days", "violations are deleted"),
  violationsKept: cut("violations of a server", "the oldest are deleted"),
  moderatorsAlerted: cut("moderators", "further moderators are not alerted"),
}

/** Of each limit that several resources share; the others stand beside their resource. */
const notes: LimitNotes<Omit<typeof limits, "automod">> & { readonly automod: typeof automod } = {
  messageCharacters: refused("characters"),
  nonceCharacters: refused("characters"),
  memberQuery: refused("characters"),
  memberIdsPerRequest: refused("ids"),
  channelsPerAck: refused("channels"),
  readersNamed: cut("names", "those who have read less far are counted, but not named"),
  pageSize: refused("items"),
  defaultPageSize: chosen("items"),
  messagesPageBytes: cut("bytes of JSON", "the list ends early and says how to go on; see [history](history.md#pages)"),
  searchPage: chosen("messages"),
  searchQuery: refused("characters"),
  userQuery: refused("characters, at least"),
  usersFound: cut("users", "further users are not found"),
  serverName: refused("characters"),
  serverDescription: refused("characters"),
  serverCategory: refused("characters"),
  serversPerUser: refused("servers", "too_many_servers"),
  channelName: refused("characters"),
  channelTopic: refused("characters"),
  channelPosition: refused("position"),
  slowmodeSeconds: refused("seconds"),
  username: refused("characters"),
  channelsPerServer: refused("channels", "channel_limit"),
  rolesPerServer: refused("roles", "role_limit"),
  overridesPerChannel: refused("overrides", "override_limit"),
  overridesPerServer: refused("overrides", "override_limit"),
  viewChangesPerServer: refused("changes", "rate_limited"),
  roleName: refused("characters"),
  banReason: refused("characters"),
  bansPage: refused("bans"),
  nickname: refused("characters"),
  timeoutSeconds: refused("seconds"),
  timeoutReason: refused("characters"),
  membersPage: refused("members"),
  invitesPerServer: refused("invites", "invite_limit"),
  endedInvitesKept: cut("invites", "those that ended first are deleted"),
  inviteAge: refused("seconds"),
  inviteUses: refused("uses"),
  membersPerServer: refused("members", "member_limit"),
  inviteDefaultAge: chosen("seconds"),
  usersInVoiceChannel: refused("users"),
  bitrate: refused("bits per second"),
  voiceMembersPerServer: cut("users", "nobody else joins a call of the server"),
  sdpCharacters: refused("characters"),
  candidateCharacters: refused("characters"),
  friendRequestMessage: refused("characters"),
  directsListed: cut("conversations", "those with older messages are not listed"),
  relationshipsOfAStatus: refused("users", "relationship_limit"),
  settingKeyCharacters: refused("characters"),
  settingValueCharacters: refused("characters"),
  settingsPerUser: refused("settings", "setting_limit"),
  notificationsKept: cut("notifications", "the oldest are deleted"),
  notificationSettings: refused("settings", "notification_settings_limit"),
  tierNotes: refused("characters"),
  badgesShown: cut("badges", "further badges are not shown"),
  urlCharacters: refused("characters"),
  webhookName: refused("characters"),
  webhookMessageCharacters: refused("characters"),
  webhookUsername: refused("characters"),
  webhooksPerChannel: refused("webhooks", "webhook_limit"),
  webhooksPerServer: refused("webhooks", "webhook_limit"),
  webhookBurstMessages: refused("messages", "rate_limited"),
  webhookMessagesPerSecond: refused("messages per second, in the long run", "rate_limited"),
  webhookBurstBytes: refused("bytes", "rate_limited"),
  webhookBytesPerSecond: refused("bytes per second, in the long run", "rate_limited"),
  embedsPerMessage: refused("embeds", "too_many_embeds"),
  embed: refused("characters, items or bytes of JSON"),
  attachmentsPerMessage: refused("files", "too_many_attachments"),
  filename: cut("characters", "shortened before its extension"),
  attachmentBytes: refused("bytes", "file_over_limit"),
  reactionsPerMessage: refused("different emojis", "reaction_limit"),
  emojiCharacters: refused("characters", "invalid_emoji"),
  messagesPerDeletion: refused("messages"),
  mentionsPerMessage: cut("users and roles", "further mentions are text"),
  previewCharacters: cut("characters", "shortened"),
  botsPerOwner: refused("bots", "bot_limit"),
  serversPerBot: refused("servers", "too_many_servers"),
  serversOfOneOwnerPerBot: refused("servers", "bot_share_limit"),
  emojiBytes: refused("bytes", "file_too_large"),
  emojiSide: refused("pixels of a side", "picture_too_large"),
  emojisPerServer: refused("emojis, static and animated each", "emoji_limit"),
  stickerBytes: refused("bytes", "file_too_large"),
  stickerSide: refused("pixels of a side", "picture_too_large"),
  stickerName: refused("characters"),
  tagsPerSticker: refused("tags"),
  stickerTag: refused("characters"),
  stickersPerPack: cut("stickers", "a new pack begins"),
  packsPerServer: refused("packs", "sticker_limit"),
  stickersLookedUp: cut("stickers of each server", "less used stickers are not suggested"),
  wordsLookedUp: cut("words", "further words suggest nothing"),
  charactersLookedUp: cut("characters at the end of a text", "the text before suggests nothing by name"),
  iconBytes: refused("bytes", "file_too_large"),
  avatarBytes: refused("bytes", "file_too_large"),
  avatarSide: refused("pixels of a side", "picture_too_large"),
  avatarSideKept: cut("pixels of a side of an avatar or an icon as it is kept", "made smaller"),
  picturePixels: refused("pixels of a picture, or of one of its frames", "picture_too_large"),
  pictureFrames: refused("frames", "picture_too_large"),
  framePixels: refused("pixels of all frames together", "picture_too_large"),
  pictureScans: refused("scans of a JPEG", "picture_too_large"),
  waveformCharacters: refused("characters", "validation_failed"),
  thumbnailBytes: cut("bytes of an attached picture", "it has no thumbnails"),
  thumbnailPixels: cut(
    "pixels of an attached JPEG of one scan or PNG that is not interlaced; others: `picturePixels`",
    "it has no thumbnails",
  ),
  automod,
}

type Bounds = Pick<typeof clusterConfig, "bus" | "actors" | "log" | "gateway" | "pictures" | "http">

const later = "503; the request may be tried again"
const closed = (name: string) => `the connection is closed (\`${name}\`)`
/** An interval bounds nothing: it says how late something happens. */
const pace = (what: string): LimitNote => ({ unit: "ms", beyond: what })
const timeout = (beyond = later): LimitNote => ({ unit: "ms", beyond })
const upgradeRefused = "the upgrade is refused with 429"
const rateLimited = closed("rate_limited")
const fromLog = "the session reads its events from the log of its worker"
const uploadsRefused = "further uploads are refused with 503"

/** Of each bound of the cluster. */
const boundNotes: DeepNotes<Bounds> = {
  bus: {
    askTimeoutMs: timeout(),
    maxPendingAsks: cut("requests to other workers", later),
    trimEveryMs: pace("how often what was read is deleted"),
    sockets: {
      maxUntaken: cut(
        "characters on their way to another worker of the host",
        "they and what follows go through Redis",
      ),
      stuckAfterMs: timeout("what another worker of the host has not taken goes through Redis"),
    },
  },
  actors: {
    mailbox: cut("commands waiting in one server, conversation or user", later),
    homes: cut(
      "servers, conversations and users in memory of a worker",
      `unused ones are unloaded; if none is unused: ${later}`,
    ),
    inFlight: cut("commands of a worker", later),
    sleepAfterMs: timeout("what was not used is unloaded"),
    batch: cut("turns in one commit", "the next ones wait for the next commit"),
    unpublishedBatches: cut("commits of a worker", "further commits wait until these are published"),
    notReadyAfterMs: timeout("`/readyz` answers 503 until something is committed or published again"),
    outboxKeepMs: timeout("a request that is repeated later may be carried out again"),
    outboxSweepEveryMs: pace("how often published rows are deleted"),
  },
  log: {
    keepMs: timeout("older events are deleted; a RESUME that needs them gets INVALID_SESSION"),
    maxBytes: cut("bytes of one worker's log", "the oldest events are deleted, as after `log.keepMs`"),
    memoryBytes: cut("bytes in memory of a worker", "older events are read from Redis"),
    markEveryMs: pace("how often it is noted up to where a log was read"),
    readCount: cut("entries in one read", "the others are in the next read"),
  },
  pictures: {
    maxConcurrent: cut("pictures that one job worker re-encodes at once", "the others wait"),
    maxWaiting: cut("uploads of a worker that wait for a re-encoded picture", later),
    maxWaitingPerUser: cut("uploads of one user that wait for a re-encoded picture, on each worker", later),
    withinMs: timeout(),
  },
  gateway: {
    heartbeatIntervalMs: timeout(`after twice as long without a heartbeat ${closed("session_timed_out")}`),
    resumeWindowMs: timeout("a session that was not resumed ends"),
    positionAfterMs: timeout("the answer to a heartbeat carries the session's position"),
    connectionsPerUser: cut("connections of a user", `for the new one: ${rateLimited}`),
    typingTimeoutMs: timeout("others are told that the user has stopped"),
    resumeReplayBytes: cut(
      "bytes of another worker's log that a session missed; a worker holds four times as much of all of them",
      "RESUME gets INVALID_SESSION",
    ),
    classesPerAudience: cut(
      "combinations of intents and encoding among the readers of a channel",
      "events are sent to further readers one by one",
    ),
    sockets: {
      sliceBytes: cut("bytes in one turn of the event loop", "the rest is sent in the next turn"),
      budgetBytes: cut("unsent bytes of one socket", fromLog),
      stuckAfterMs: timeout("a connection that has taken nothing is closed"),
      maxPerAddress: cut(
        "sockets of an address, or of a /64, on a worker; four times as many of a /56, sixteen times of a /48",
        upgradeRefused,
      ),
      maxUnidentifiedPerAddress: cut("sockets of an address without a session, on a worker", upgradeRefused),
    },
    identify: {
      maxConcurrent: cut("sessions in IDENTIFY on a worker", "further ones wait (`gateway.identify.maxWaiting`)"),
      maxWaiting: cut("sessions that wait for IDENTIFY or RESUME", closed("try_again_later")),
      timeoutMs: timeout(`without IDENTIFY or RESUME ${closed("not_authenticated")}`),
    },
    frames: {
      allPerMinute: cut(
        "frames of a connection in a minute, whatever they are: heartbeats, pings, voice signals and ignored ones, too",
        rateLimited,
      ),
      perMinute: cut("frames of a connection in a minute", rateLimited),
      signalsPerMinute: cut("voice signals of a connection in a minute", "further signals are ignored"),
      maxBytes: cut("bytes", closed("decode_error")),
      maxInflatedBytes: cut("bytes", closed("decode_error")),
    },
    drain: {
      perSecond: cut("sessions in a second that a draining worker sends to others", "further ones wait"),
      withinMs: timeout("all sessions have been sent to other workers"),
    },
    deliveries: {
      cursorsEveryMs: pace("how late delivery counts are stored"),
    },
  },
  http: {
    body: {
      maxBytes: refused("bytes", "payload_too_large"),
      maxDepth: refused("levels"),
      maxValues: refused("keys and items"),
      timeoutMs: timeout("without any bytes for so long: refused: `request_timeout`"),
    },
    uploads: {
      maxBytes: cut("bytes in memory of a worker", uploadsRefused),
      maxBytesPerUser: cut("bytes of one user in memory of a worker", uploadsRefused),
      timeoutMs: timeout(
        "a form that is not complete is refused: `request_timeout`; so is one whose file was not kept in it: `unavailable`",
      ),
    },
    streams: {
      maxBytes: cut("bytes in memory of a worker of which it is not known yet whose they are", uploadsRefused),
      bufferBytes: cut("bytes in memory of a worker after that", "senders wait"),
      maxConcurrent: cut("files of more than 128 KiB that a worker receives", uploadsRefused),
      maxPerUser: cut("files of more than 128 KiB that a worker receives of one user", uploadsRefused),
      minBytesPerSecond: {
        unit: "bytes per second, at least",
        beyond: "a slower transfer is ended after `http.uploads.timeoutMs` or `http.downloads.timeoutMs`",
      },
    },
    downloads: {
      maxBytes: cut("bytes of answers over 64 KiB in memory of a worker", "further long answers are refused with 503"),
      maxBytesPerAddress: cut(
        "bytes, as above, of an address, or of a /64; four times as many of a /56, sixteen times of a /48, but at most a quarter of `http.downloads.maxBytes`",
        "further long answers to the address are refused with 503",
      ),
      timeoutMs: timeout("the connection is closed, unless it keeps `http.streams.minBytesPerSecond`"),
    },
    connections: {
      openedPerAddress: cut(
        "connections that an address, or a /64, opens within 12 s, on each worker; four times as many a /56, sixteen times a /48",
        "closed at once",
      ),
      requestsPerAddress: cut(
        "requests of an address, or of a /64, under way, on each worker; four times as many of a /56, sixteen times of a /48",
        "refused: `rate_limited`",
      ),
    },
    pages: { requestsPerMinute: cut("pages of an address in a minute, on each worker", "refused: `rate_limited`") },
    limits: {
      leaseTokens: cut(
        "requests of a user and route that a worker takes from the buckets at once",
        "it asks Redis again",
      ),
      leaseMs: timeout("what was not used of them goes back"),
      maxLeases: cut("users and routes of which a worker takes several at once", "the requests of others ask Redis"),
    },
    hashTimeoutMs: timeout(),
    answerTimeoutMs: timeout(),
  },
}

const shown = (value: number) => value.toLocaleString("en")
const isNote = (note: object): note is LimitNote => "unit" in note

/** Rows of name, value, unit and what happens beyond it. A note holds for every number below its value. */
function rowsOf(values: unknown, about: object, path: string): string[][] {
  if (typeof values === "number" && isNote(about)) return [[path, shown(values), about.unit, about.beyond]]
  if (typeof values !== "object" || values === null) return []
  const below: Readonly<Record<string, object>> = isNote(about) ? {} : { ...about }
  return Object.entries(values).flatMap(([name, value]) => {
    const note = isNote(about) ? about : below[name]
    return note ? rowsOf(value, note, path === "" ? name : `${path}.${name}`) : []
  })
}

export const limitRows = (): string[][] =>
  [{ limits, limitNotes: notes }, ...resourceLimits].flatMap(declared =>
    rowsOf(declared.limits, declared.limitNotes, ""),
  )

/** Those of `cluster.config.ts` that clients can notice. */
export const boundRows = (): string[][] => rowsOf(clusterConfig, boundNotes, "")
