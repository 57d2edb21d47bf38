/**
 * Gateway opcodes: number, who sends it, whether it may come before IDENTIFY, what it counts against (`frames`: the
 * limiter of client frames; `signals`: the one of voice signalling, whose excess is ignored). `nobody`: reserved; who sends it
 * is closed with 4001, like with any number that is not the client's.
 */
export const opcodes = {
  DISPATCH: { op: 0, from: "server", beforeIdentify: false, counts: "nothing" },
  HEARTBEAT: { op: 1, from: "client", beforeIdentify: true, counts: "nothing" },
  IDENTIFY: { op: 2, from: "client", beforeIdentify: true, counts: "frames" },
  PRESENCE_UPDATE: { op: 3, from: "client", beforeIdentify: false, counts: "frames" },
  VOICE_STATE_UPDATE: { op: 4, from: "client", beforeIdentify: false, counts: "frames" },
  RESUME: { op: 6, from: "client", beforeIdentify: true, counts: "frames" },
  RECONNECT: { op: 7, from: "server", beforeIdentify: false, counts: "nothing" },
  REQUEST_GUILD_MEMBERS: { op: 8, from: "client", beforeIdentify: false, counts: "frames" },
  INVALID_SESSION: { op: 9, from: "server", beforeIdentify: true, counts: "nothing" },
  HELLO: { op: 10, from: "server", beforeIdentify: true, counts: "nothing" },
  HEARTBEAT_ACK: { op: 11, from: "server", beforeIdentify: true, counts: "nothing" },
  SERVER_STATUS: { op: 12, from: "server", beforeIdentify: false, counts: "nothing" },
  VERSION_CHECK: { op: 13, from: "nobody", beforeIdentify: false, counts: "nothing" },
  VOICE_CONNECT: { op: 20, from: "client", beforeIdentify: false, counts: "frames" },
  VOICE_DISCONNECT: { op: 21, from: "client", beforeIdentify: false, counts: "frames" },
  VOICE_SDP_OFFER: { op: 22, from: "both", beforeIdentify: false, counts: "signals" },
  VOICE_SDP_ANSWER: { op: 23, from: "both", beforeIdentify: false, counts: "signals" },
  VOICE_ICE_CANDIDATE: { op: 24, from: "both", beforeIdentify: false, counts: "signals" },
  VOICE_SPEAKING: { op: 25, from: "both", beforeIdentify: false, counts: "signals" },
  VOICE_QUALITY: { op: 26, from: "client", beforeIdentify: false, counts: "signals" },
  INTERACTION_CREATE: { op: 30, from: "nobody", beforeIdentify: false, counts: "nothing" },
  INTERACTION_RESPONSE: { op: 31, from: "nobody", beforeIdentify: false, counts: "nothing" },
  TYPING_START: { op: 40, from: "client", beforeIdentify: false, counts: "frames" },
  TYPING_STOP: { op: 41, from: "client", beforeIdentify: false, counts: "frames" },
} as const satisfies Record<string, Opcode>

interface Opcode {
  op: number
  from: "client" | "server" | "both" | "nobody"
  beforeIdentify: boolean
  counts: "frames" | "signals" | "nothing"
}

export type OpName = keyof typeof opcodes
type From<F extends Opcode["from"]> = {
  [N in OpName]: (typeof opcodes)[N]["from"] extends F ? N : never
}[OpName]
/** What a client may send. */
export type ClientOp = From<"client" | "both">
/** What a client may be sent. */
export type ServerOp = From<"server" | "both">

/** Close codes: code → reason text on the wire, and whether the client should RESUME afterwards. */
export const closeCodes = {
  normal: { code: 1000, reason: "", resume: true },
  resumed_elsewhere: { code: 1000, reason: "Resumed elsewhere", resume: false },
  going_away: { code: 1001, reason: "", resume: true },
  too_big: { code: 1009, reason: "", resume: true },
  service_restart: { code: 1012, reason: "Service restart", resume: true },
  try_again_later: { code: 1013, reason: "Try again later", resume: true },
  unknown_error: { code: 4000, reason: "Unknown error", resume: true },
  unknown_opcode: { code: 4001, reason: "Unknown opcode", resume: true },
  decode_error: { code: 4002, reason: "Decode error", resume: true },
  not_authenticated: { code: 4003, reason: "Not authenticated", resume: true },
  ip_blocked: { code: 4003, reason: "IP Blocked", resume: false },
  authentication_failed: { code: 4004, reason: "Authentication failed", resume: false },
  security_reset: { code: 4004, reason: "Security reset", resume: false },
  already_authenticated: { code: 4005, reason: "Already authenticated", resume: true },
  rate_limited: { code: 4008, reason: "Rate limited", resume: true },
  session_timed_out: { code: 4009, reason: "Session timed out", resume: true },
  invalid_intents: { code: 4013, reason: "Invalid intents", resume: false },
  version_outdated: { code: 4015, reason: "Client version outdated", resume: false },
  server_maintenance: { code: 4016, reason: "Server entering maintenance", resume: false },
  server_shutdown: { code: 4017, reason: "Server shutting down", resume: false },
} as const satisfies Record<string, { code: number; reason: string; resume: boolean }>

export type CloseName = keyof typeof closeCodes

/** Codes that clients of this protocol know and that this server has no reason to send. */
export const unusedCloseCodes = {
  4007: "Invalid sequence",
  4010: "Invalid shard",
  4011: "Sharding required",
  4012: "Invalid API version",
  4014: "Disallowed intents",
} as const
