/** Who calls a route of operators: the account of the session, and where the call comes from. */
export interface Operator {
  /** A small integer as text: no user has such an id. */
  readonly id: string
  readonly name: string
  readonly address: string
  /** SHA-256 of the session's token. */
  readonly session: string
}

/** 32 random bytes as base64url. Tokens of users have a dot. */
export const operatorTokenShape = /^[A-Za-z0-9_-]{43}$/

/** Seconds that a session lasts from its beginning, whatever it is used for. */
export const operatorSessionSeconds = 8 * 3600

/** Seconds between a right password and a right code. */
export const operatorChallengeSeconds = 300

/** Codes that may come with one challenge. */
export const operatorCodesAllowed = 5
