import { createHash, randomBytes } from "node:crypto"
import { Failure, fail, type ErrorCode } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import type { Content, Unread } from "../../contract/core/registry.ts"
import { secondsAt } from "../../std/clock.ts"
import type { FileState } from "../../domain/core/file-types.ts"
import { serverFile, type Blobs } from "../../storage/core/blobs.ts"
import type { Http, Uses } from "./http.ts"

/** What keeping a file takes. */
export type FileNeeds = Pick<Http<"files">, "storage" | "clock" | "log"> & Uses<{ readonly blobs: Blobs }>

/** Refusals that leave open whether the turn was done. */
const undecided: ReadonlySet<ErrorCode> = new Set(["unavailable", "internal"])

/**
 * Keeps a file of a server's and has a turn name it: first the note that it may be left over, then
 * the file, then the row, which takes the note back. What a refused turn leaves goes at once, what
 * a lost answer leaves is swept.
 */
export async function withFile<T>(
  { integrations: { blobs }, storage, clock, log }: FileNeeds,
  server: Snowflake,
  { bytes, content_type }: { bytes: Uint8Array; content_type: string },
  turn: (file: FileState) => Promise<T>,
): Promise<T> {
  const file = randomBytes(16).toString("hex")
  const key = serverFile(server, file)
  await storage.files.announce(key, secondsAt(clock()))
  await blobs.put(key, bytes)
  const removeUnused = async () => {
    if (!(await storage.files.isUnused(key))) return
    await blobs.delete(key)
    await storage.files.forget([key])
  }
  try {
    return await turn({ file, content_type, hash: hashOf(bytes), size: bytes.length })
  } catch (error) {
    if (error instanceof Failure && !undecided.has(error.code))
      await removeUnused().catch((cause: unknown) =>
        log.debug({ err: cause, key }, "a refused file is left to the sweep"),
      )
    throw error
  }
}

export const hashOf = (bytes: Uint8Array | string): string => createHash("sha256").update(bytes).digest("hex")

/**
 * Files come from others: whatever is in them, a browser runs nothing of it, and takes it for
 * nothing else.
 */
export const harmless = {
  "Cross-Origin-Resource-Policy": "cross-origin",
  "Content-Security-Policy": "default-src 'none'; sandbox",
}

export const picture = <Body extends Content["body"]>(
  contentType: string,
  body: Body,
  maxAge: string,
  hash: string,
): Content & { body: Body } => ({
  contentType,
  body,
  headers: {
    ...harmless,
    // A page may read it; a browser that opens it saves it.
    ...(!contentType.startsWith("image/") && { "Content-Disposition": "attachment" }),
    "Cache-Control": `public, ${maxAge}`,
    ETag: `"${hash}"`,
  },
})

type ServerFile = FileState & { readonly server_id: Snowflake }

/** A file that never changes under its address. */
export function stored(
  http: Pick<FileNeeds, "integrations" | "log">,
  found: ServerFile | undefined,
  missing: ErrorCode,
): Content {
  if (!found) throw fail(missing)
  const maxAge = "max-age=31536000, immutable"
  const read = async () => {
    const content = await contentOf(http, found, maxAge)
    if (!content) throw fail(missing)
    return content
  }
  return unread(found, maxAge, read)
}

export const unread = ({ content_type, size, hash }: FileState, maxAge: string, read: Unread["read"]): Content =>
  picture(content_type, { size, read }, maxAge, hash)

export async function contentOf(
  { integrations: { blobs }, log }: Pick<FileNeeds, "integrations" | "log">,
  found: ServerFile,
  maxAge: string,
): Promise<(Content & { body: Uint8Array<ArrayBuffer> }) | undefined> {
  const key = serverFile(found.server_id, found.file)
  const bytes = await blobs.get(key)
  if (!bytes) {
    // It went between the row and here, or this host has another DATA_DIR than the one that took
    // it.
    log.warn({ key }, "file of a row is missing")
    return undefined
  }
  return picture(found.content_type, bytes, maxAge, found.hash)
}
