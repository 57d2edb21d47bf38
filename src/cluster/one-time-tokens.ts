import type { Snowflake } from "../contract/core/fields.ts"
import type { TokenKind } from "../domain/accounts/one-time-tokens.ts"
import { hashSecret, newSecret } from "./tokens.ts"

/** One-time tokens as they are handed out: `<prefix>.<id>.<secret>`, the secret 32 random bytes, kept only as its SHA-256. */
const prefixes = {
  two_factor: "2fa",
  verify_email: "email",
  password_reset: "email",
  restore_email: "email",
} as const satisfies Record<TokenKind, string>

/** The part of a token that nobody else knows, and what is kept of it. */
export function newTokenSecret(): { secret: string; token_hash: string } {
  const secret = newSecret()
  return { secret, token_hash: hashSecret(secret) }
}

export const tokenText = (kind: TokenKind, id: Snowflake, secret: string): string => `${prefixes[kind]}.${id}.${secret}`

const shape = /^(2fa|email)\.(0|[1-9]\d{0,18})\.([A-Za-z0-9_-]{43})$/

/** Undefined when it has not the shape of a token of this kind. */
export function readToken(kind: TokenKind, text: string): { id: Snowflake; token_hash: string } | undefined {
  const [, prefix, id, secret] = shape.exec(text) ?? []
  if (prefix !== prefixes[kind] || (id!.length === 19 && id! > "9223372036854775807")) return undefined
  return { id: id!, token_hash: hashSecret(secret!) }
}
