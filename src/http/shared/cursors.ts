import { createHash } from "node:crypto"
import type { Snowflake } from "../../contract/core/fields.ts"
import { fail } from "../../contract/core/errors.ts"

/**
 * Whose search a cursor belongs to, and which. It guards nothing: what the caller may see is
 * decided anew for every page.
 */
export const cursorKey = (kind: string, user: Snowflake, asked: readonly unknown[]): string =>
  createHash("sha256")
    .update(JSON.stringify([kind, user, ...asked.map(value => value ?? null)]))
    .digest("base64url")
    .slice(0, 12)

export const writeCursor = (position: string, key: string): string =>
  Buffer.from(`${key}${position}`).toString("base64url")

export function readCursor(cursor: string, key: string): string {
  const text = Buffer.from(cursor, "base64url").toString("latin1")
  const isWhole = Buffer.from(text, "latin1").toString("base64url") === cursor
  if (!isWhole || !text.startsWith(key) || !/^[\d:]+$/.test(text.slice(key.length))) throw fail("invalid_cursor")
  return text.slice(key.length)
}
