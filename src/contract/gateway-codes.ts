/**
 * Gateway opcodes: number, who sends it, whether it may come before IDENTIFY, what it counts against (`frames`: the
 * limiter of client frames; `signals`: the one of voice signalling, whose excess is ignored). `nobody`: reserved; who sends it
 * is closed with 4001, like with any number that is not the client's.
 */
export const opcodes = {
  DISPATCH: {
    op: 0,
    from: "server",
    beforeIdentify: false,
    counts: "nothing",
    summary: "One event: `t` names it, `s` is its place in the log, `d` is its data",
  },
  HEARTBEAT: {
    op: 1,
    from: "client",
    beforeIdentify: true,
    counts: "nothing",
    summary:
      "The client is alive. `d` is the last `s`, or null; the server does not look at it. Answered with HEARTBEAT_ACK",
  },
  IDENTIFY: {
    op: 2,
    from: "client",
    beforeIdentify: true,
    counts: "frames",
    summary: "Begins a session. Answered with READY, or the connection closes",
  },
  PRESENCE_UPDATE: {
    op: 3,
    from: "client",
    beforeIdentify: false,
    counts: "frames",
    summary: "Sets the user's status. Not answered; what is no status is ignored",
  },
  VOICE_STATE_UPDATE: {
    op: 4,
    from: "client",
    beforeIdentify: false,
    counts: "frames",
    summary: "Joins or changes a voice channel, mutes and deafens; `channel_id` null leaves",
  },
  RESUME: {
    op: 6,
    from: "client",
    beforeIdentify: true,
    counts: "frames",
    summary: "Goes on with a session after `seq`. Answered with RESUMED and what was missed, or with INVALID_SESSION",
  },
  RECONNECT: {
    op: 7,
    from: "server",
    beforeIdentify: false,
    counts: "nothing",
    summary: "The server is about to leave: connect again at once and RESUME",
  },
  REQUEST_GUILD_MEMBERS: {
    op: 8,
    from: "client",
    beforeIdentify: false,
    counts: "frames",
    summary: "Asks for members of a server. Answered with GUILD_MEMBERS_CHUNK, once per 1,000 members",
  },
  INVALID_SESSION: {
    op: 9,
    from: "server",
    beforeIdentify: true,
    counts: "nothing",
    summary: "RESUME was refused. `d` is always false: IDENTIFY on the same connection, after a wait",
  },
  HELLO: {
    op: 10,
    from: "server",
    beforeIdentify: true,
    counts: "nothing",
    summary: "The first frame of every connection: how often it wants a heartbeat",
  },
  HEARTBEAT_ACK: {
    op: 11,
    from: "server",
    beforeIdentify: true,
    counts: "nothing",
    summary: "The answer to a heartbeat. It has no `d`",
  },
  SERVER_STATUS: {
    op: 12,
    from: "server",
    beforeIdentify: false,
    counts: "nothing",
    summary: "The server's state has changed or is about to; it has no `s` and is not replayed",
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
    summary: "Joins a voice channel. Answered with VOICE_STATE_UPDATE and VOICE_SERVER_UPDATE",
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
    summary: "An SDP offer for another participant of the voice channel, passed on with the sender's id",
  },
  VOICE_SDP_ANSWER: {
    op: 23,
    from: "both",
    beforeIdentify: false,
    counts: "signals",
    summary: "The answer to an offer, passed on likewise",
  },
  VOICE_ICE_CANDIDATE: {
    op: 24,
    from: "both",
    beforeIdentify: false,
    counts: "signals",
    summary: "An ICE candidate, passed on likewise; an empty one ends the candidates",
  },
  VOICE_SPEAKING: {
    op: 25,
    from: "both",
    beforeIdentify: false,
    counts: "signals",
    summary: "Whether the user speaks, passed on to the others in the voice channel",
  },
  VOICE_QUALITY: {
    op: 26,
    from: "client",
    beforeIdentify: false,
    counts: "signals",
    summary: "A hint about the quality that the client wants",
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
    summary: "The user types in a channel; the others there receive the event of that name",
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

/** Close codes: code → reason text on the wire, whether the client should RESUME afterwards, and why it comes. */
export const closeCodes = {
  normal: {
    code: 1000,
    reason: "",
    resume: true,
    summary: "The client said goodbye; the session can be resumed for the resume window",
  },
  resumed_elsewhere: {
    code: 1000,
    reason: "Resumed elsewhere",
    resume: false,
    summary: "The session goes on over another connection: this one is over, there is nothing to do",
  },
  going_away: { code: 1001, reason: "", resume: true, summary: "The page or the program is closing" },
  too_big: {
    code: 1009,
    reason: "",
    resume: true,
    summary: "A frame larger than the transport takes. It ends the connection without a close frame: clients see 1006",
  },
  service_restart: {
    code: 1012,
    reason: "Service restart",
    resume: true,
    summary: "The worker is leaving; others take over its sessions",
  },
  try_again_later: {
    code: 1013,
    reason: "Try again later",
    resume: true,
    summary: "The server cannot serve this now, such as while its database is away",
  },
  unknown_error: {
    code: 4000,
    reason: "Unknown error",
    resume: true,
    summary: "A fault of the server while it handled a frame",
  },
  unknown_opcode: {
    code: 4001,
    reason: "Unknown opcode",
    resume: true,
    summary: "An opcode that nobody knows, or that only the server sends",
  },
  decode_error: {
    code: 4002,
    reason: "Decode error",
    resume: true,
    summary: "A frame that cannot be read, is too large, or lacks what its opcode needs",
  },
  not_authenticated: {
    code: 4003,
    reason: "Not authenticated",
    resume: true,
    summary: "A frame that needs a session before IDENTIFY, or no IDENTIFY in time",
  },
  ip_blocked: { code: 4003, reason: "IP Blocked", resume: false, summary: "The client's address is blocked" },
  authentication_failed: {
    code: 4004,
    reason: "Authentication failed",
    resume: false,
    summary: "The token is wrong, revoked or expired: log in again",
  },
  security_reset: {
    code: 4004,
    reason: "Security reset",
    resume: false,
    summary: "An operator has ended all sessions: log in again",
  },
  already_authenticated: {
    code: 4005,
    reason: "Already authenticated",
    resume: true,
    summary: "IDENTIFY or RESUME on a connection that has a session",
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
    summary: "`intents` is no whole number or out of range",
  },
  version_outdated: {
    code: 4015,
    reason: "Client version outdated",
    resume: false,
    summary: "`properties.client_version` is older than what `GET /api/v1/version` names as the minimum",
  },
  server_maintenance: {
    code: 4016,
    reason: "Server entering maintenance",
    resume: false,
    summary: "Maintenance: poll `GET /api/v1/status`",
  },
  server_shutdown: {
    code: 4017,
    reason: "Server shutting down",
    resume: false,
    summary: "The end of service, announced by an operator",
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
} as const
