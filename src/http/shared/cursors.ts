import type { Snowflake } from "../../contract/core/fields.ts"
import { fail } from "../../contract/core/errors.ts"
import type { Secrets } from "../../integrations/secrets.ts"

/**
 * Where the next page of a search begins. Cursors are sealed, because the place is that of the last
 * message that was looked at, which the caller may not be allowed to read: open, it would tell how
 * often a word was said there. A cursor opens only for the user and the search that it was made for.
 */
export function searchCursor(
  secrets: Pick<Secrets, "seal" | "open">,
  search: { readonly kind: string; readonly user: Snowflake; readonly asked: readonly unknown[] },
) {
  const { kind, user, asked } = search
  const about = JSON.stringify(["search", kind, user, ...asked.map(value => value ?? null)])
  return {
    write: (place: string | null): string | null => (place === null ? null : secrets.seal(place, about)),
    /** Fails with `invalid_cursor` when it was made for another search, or by nobody. */
    read(cursor: string): string {
      // Text that base64url reads as the same bytes is not the same cursor.
      if (Buffer.from(cursor, "base64url").toString("base64url") !== cursor) throw fail("invalid_cursor")
      try {
        return secrets.open(cursor, about)
      } catch {
        throw fail("invalid_cursor")
      }
    },
  }
}
export type SearchCursor = ReturnType<typeof searchCursor>
