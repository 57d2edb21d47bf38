/** Gateway opcodes: number → name, who sends it, whether it may come before IDENTIFY. Client-sent numbers that are not the client's close the connection with 4001. */
export const opcodes = {
  DISPATCH: { op: 0, from: "server", beforeIdentify: false },
  HEARTBEAT: { op: 1, from: "client", beforeIdentify: true },
  IDENTIFY: { op: 2, from: "client", beforeIdentify: true },
  RESUME: { op: 6, from: "client", beforeIdentify: true },
  RECONNECT: { op: 7, from: "server", beforeIdentify: false },
  INVALID_SESSION: { op: 9, from: "server", beforeIdentify: true },
  HELLO: { op: 10, from: "server", beforeIdentify: true },
  HEARTBEAT_ACK: { op: 11, from: "server", beforeIdentify: true },
  TYPING_START: { op: 40, from: "client", beforeIdentify: false },
} as const satisfies Record<string, { op: number; from: "client" | "server"; beforeIdentify: boolean }>

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
  authentication_failed: { code: 4004, reason: "Authentication failed", resume: false },
  already_authenticated: { code: 4005, reason: "Already authenticated", resume: true },
  rate_limited: { code: 4008, reason: "Rate limited", resume: true },
  session_timed_out: { code: 4009, reason: "Session timed out", resume: true },
  invalid_intents: { code: 4013, reason: "Invalid intents", resume: false },
} as const satisfies Record<string, { code: number; reason: string; resume: boolean }>

export type CloseName = keyof typeof closeCodes
