import type { RateLimit } from "./registry.ts"

/** Fixed limits of the interface, in characters (code points), items or seconds. */
export const limits = {
  messageCharacters: 4000,
  nonceCharacters: 64,
  /** Of REQUEST_GUILD_MEMBERS. */
  memberQuery: 100,
  memberIdsPerRequest: 100,
  pageSize: 100,
  defaultPageSize: 50,
  serverName: { min: 2, max: 100 },
  serverDescription: 1000,
  channelName: { min: 1, max: 100 },
  channelTopic: 1024,
  slowmodeSeconds: 21_600,
  username: { min: 3, max: 32 },
  channelsPerServer: 500,
  rolesPerServer: 250,
  overridesPerChannel: 500,
  roleName: { min: 1, max: 100 },
  banReason: 512,
  bansPage: 1000,
  membersPerServer: 250_000,
  /** Servers one user may own, of the standard tier. */
  ownedServers: 100,
  inviteDefaultAge: 86_400,
  usersInVoiceChannel: 99,
  bitrate: { min: 8_000, usual: 64_000, max: 384_000 },
  /** In all voice channels of a server together. */
  voiceMembersPerServer: 2_000,
  sdpCharacters: 32_768,
  candidateCharacters: 4_096,
  friendRequestMessage: 256,
  /** Friends, incoming requests, outgoing requests, blocks: so many of each. */
  relationshipsOfAStatus: 1000,
  embedsPerMessage: 10,
  attachmentsPerMessage: 10,
} as const

/** Buckets that every counted request meets; a route may declare one of its own beside them. */
export const commonRateLimits = {
  global: { requests: 50, seconds: 1, burst: 10, algorithm: "token", scope: "user" },
  user: { requests: 70, seconds: 60, burst: 20, algorithm: "sliding", scope: "user" },
  ip: { requests: 70, seconds: 60, burst: 10, algorithm: "sliding", scope: "ip" },
} as const satisfies Record<string, RateLimit>

/** Failed token checks of one address. */
export const failedTokenLimit = { requests: 100, seconds: 60 } as const
