/**
 * Gateway opcodes: number, who sends it, whether it may come before IDENTIFY, what it counts
 * against (`frames`: the limiter of client frames; `signals`: the one of voice signalling, whose
 * excess is ignored); beside it every frame counts against the bound on all of them. `nobody`: reserved; who sends it is closed with 4001, like with any number
 * that is not the client's.
 */
export const opcodes = {
  DISPATCH: {
    op: 0,
    from: "server",
    beforeIdentify: false,
    counts: "nothing",
    summary: "An event. `t` is its name, `s` its sequence number, `d` its data",
  },
  HEARTBEAT: {
    op: 1,
    from: "client",
    beforeIdentify: true,
    counts: "nothing",
    summary:
      "Keeps the connection alive. `d` is the last `s` that the client has processed, or null. The response is HEARTBEAT_ACK",
  },
  IDENTIFY: {
    op: 2,
    from: "client",
    beforeIdentify: true,
    counts: "frames",
    summary: "Starts a session. The response is READY, or the connection closes",
  },
  PRESENCE_UPDATE: {
    op: 3,
    from: "client",
    beforeIdentify: false,
    counts: "frames",
    summary: "Sets the user's status. There is no response. An unknown status is ignored",
  },
  VOICE_STATE_UPDATE: {
    op: 4,
    from: "client",
    beforeIdentify: false,
    counts: "frames",
    summary: "Joins or changes a voice channel, or sets mute and deafen. `channel_id` null leaves the channel",
  },
  RESUME: {
    op: 6,
    from: "client",
    beforeIdentify: true,
    counts: "frames",
    summary: "Continues a session after `seq`. The response is RESUMED and the missed events, or INVALID_SESSION",
  },
  RECONNECT: {
    op: 7,
    from: "server",
    beforeIdentify: false,
    counts: "nothing",
    summary: "The server is shutting down. Connect again at once and send RESUME",
  },
  REQUEST_GUILD_MEMBERS: {
    op: 8,
    from: "client",
    beforeIdentify: false,
    counts: "frames",
    summary: "Requests members of a server. The response is one GUILD_MEMBERS_CHUNK per 1,000 members",
  },
  INVALID_SESSION: {
    op: 9,
    from: "server",
    beforeIdentify: true,
    counts: "nothing",
    summary: "RESUME was refused. `d` is always false. Wait, then send IDENTIFY on the same connection",
  },
  HELLO: {
    op: 10,
    from: "server",
    beforeIdentify: true,
    counts: "nothing",
    summary: "The first frame of every connection. It has the heartbeat interval",
  },
  HEARTBEAT_ACK: {
    op: 11,
    from: "server",
    beforeIdentify: true,
    counts: "nothing",
    summary: "The response to a heartbeat. It has no `d`",
  },
  SERVER_STATUS: {
    op: 12,
    from: "server",
    beforeIdentify: false,
    counts: "nothing",
    summary: "The state of the service has changed or will change. It has no `s` and is not replayed",
  },
  VERSION_CHECK: {
    op: 13,
    from: "nobody",
    beforeIdentify: false,
    counts: "nothing",
    summary: "Reserved; versions are negotiated over REST",
  },
  VOICE_CONNECT: {
    op: 20,
    from: "client",
    beforeIdentify: false,
    counts: "frames",
    summary: "Joins a voice channel. The responses are VOICE_STATE_UPDATE and VOICE_SERVER_UPDATE",
  },
  VOICE_DISCONNECT: {
    op: 21,
    from: "client",
    beforeIdentify: false,
    counts: "frames",
    summary: "Leaves the voice channel",
  },
  VOICE_SDP_OFFER: {
    op: 22,
    from: "both",
    beforeIdentify: false,
    counts: "signals",
    summary: "An SDP offer for another participant of the voice channel. It is forwarded with the sender's id",
  },
  VOICE_SDP_ANSWER: {
    op: 23,
    from: "both",
    beforeIdentify: false,
    counts: "signals",
    summary: "The answer to an SDP offer. It is forwarded in the same way",
  },
  VOICE_ICE_CANDIDATE: {
    op: 24,
    from: "both",
    beforeIdentify: false,
    counts: "signals",
    summary: "An ICE candidate. It is forwarded in the same way. An empty candidate ends the list",
  },
  VOICE_SPEAKING: {
    op: 25,
    from: "both",
    beforeIdentify: false,
    counts: "signals",
    summary: "Whether the user is speaking. It is forwarded to the others in the voice channel",
  },
  VOICE_QUALITY: {
    op: 26,
    from: "client",
    beforeIdentify: false,
    counts: "signals",
    summary: "A hint about the quality that the client prefers",
  },
  INTERACTION_CREATE: {
    op: 30,
    from: "nobody",
    beforeIdentify: false,
    counts: "nothing",
    summary: "Reserved",
  },
  INTERACTION_RESPONSE: {
    op: 31,
    from: "nobody",
    beforeIdentify: false,
    counts: "nothing",
    summary: "Reserved",
  },
  TYPING_START: {
    op: 40,
    from: "client",
    beforeIdentify: false,
    counts: "frames",
    summary: "The user is typing in a channel. The other users there receive the TYPING_START event",
  },
  TYPING_STOP: {
    op: 41,
    from: "client",
    beforeIdentify: false,
    counts: "frames",
    summary: "The user has stopped typing",
  },
} as const satisfies Record<string, Opcode>

interface Opcode {
  op: number
  from: "client" | "server" | "both" | "nobody"
  beforeIdentify: boolean
  counts: "frames" | "signals" | "nothing"
  /** What it is for, as documents and pages say it. */
  summary: string
}

export type OpName = keyof typeof opcodes
type From<F extends Opcode["from"]> = {
  [N in OpName]: (typeof opcodes)[N]["from"] extends F ? N : never
}[OpName]
/** What a client may send. */
export type ClientOp = From<"client" | "both">
/** What a client may be sent. */
export type ServerOp = From<"server" | "both">

/**
 * Close codes: code → reason text on the wire, whether the client should RESUME afterwards, and why
 * it comes.
 */
export const closeCodes = {
  normal: {
    code: 1000,
    reason: "",
    resume: true,
    summary: "The client closed the connection. The session can be resumed within the resume window",
  },
  resumed_elsewhere: {
    code: 1000,
    reason: "Resumed elsewhere",
    resume: false,
    summary: "The session continues on another connection. Nothing to do",
  },
  going_away: { code: 1001, reason: "", resume: true, summary: "The page or the application is closing" },
  too_big: {
    code: 1009,
    reason: "",
    resume: true,
    summary:
      "A frame exceeds the limit of the transport. The connection ends without a close frame, so clients see 1006",
  },
  service_restart: {
    code: 1012,
    reason: "Service restart",
    resume: true,
    summary: "The worker is shutting down. Other workers take over its sessions",
  },
  try_again_later: {
    code: 1013,
    reason: "Try again later",
    resume: true,
    summary: "The server cannot handle this now, for example because its database is unavailable",
  },
  unknown_error: {
    code: 4000,
    reason: "Unknown error",
    resume: true,
    summary: "An internal error while the server handled a frame",
  },
  unknown_opcode: {
    code: 4001,
    reason: "Unknown opcode",
    resume: true,
    summary: "An unknown opcode, or one that only the server sends",
  },
  decode_error: {
    code: 4002,
    reason: "Decode error",
    resume: true,
    summary: "A frame that cannot be parsed, is too large, or lacks a required field",
  },
  not_authenticated: {
    code: 4003,
    reason: "Not authenticated",
    resume: true,
    summary: "A frame that requires a session before IDENTIFY or RESUME, or none of both in time",
  },
  ip_blocked: { code: 4003, reason: "IP Blocked", resume: false, summary: "The client's address is blocked" },
  authentication_failed: {
    code: 4004,
    reason: "Authentication failed",
    resume: false,
    summary: "The token is wrong, revoked or expired. Sign in again",
  },
  security_reset: {
    code: 4004,
    reason: "Security reset",
    resume: false,
    summary: "An operator has ended all sessions. Sign in again",
  },
  already_authenticated: {
    code: 4005,
    reason: "Already authenticated",
    resume: true,
    summary: "IDENTIFY or RESUME on a connection that already has a session",
  },
  rate_limited: {
    code: 4008,
    reason: "Rate limited",
    resume: true,
    summary: "Too many frames, IDENTIFYs or connections, or the client reads too slowly",
  },
  session_timed_out: {
    code: 4009,
    reason: "Session timed out",
    resume: true,
    summary: "No heartbeat for two intervals",
  },
  invalid_intents: {
    code: 4013,
    reason: "Invalid intents",
    resume: false,
    summary: "`intents` is not an integer or is out of range",
  },
  server_maintenance: {
    code: 4016,
    reason: "Server entering maintenance",
    resume: false,
    summary: "Maintenance. Poll `GET /api/v1/status`",
  },
  server_shutdown: {
    code: 4017,
    reason: "Server shutting down",
    resume: false,
    summary: "An operator has announced the end of service",
  },
} as const satisfies Record<string, { code: number; reason: string; resume: boolean; summary: string }>

export type CloseName = keyof typeof closeCodes

/** Codes that clients of this protocol know and that this server has no reason to send. */
export const unusedCloseCodes = {
  4007: "Invalid sequence",
  4010: "Invalid shard",
  4011: "Sharding required",
  4012: "Invalid API version",
  4014: "Disallowed intents",
  4015: "Client version outdated",
} as const
