import { createHash } from "node:crypto"
import { Failure } from "../../../contract/core/errors.ts"
import type { Snowflake } from "../../../contract/core/fields.ts"
import { limits } from "../../../contract/core/limits.ts"
import type { FileState } from "../../../domain/core/file-types.ts"
import { declaredType, isExecutableType } from "../../../domain/core/file-types.ts"
import { cleanFilename, isExecutableName, keptExtension } from "../../../domain/core/filenames.ts"
import { isHashable, type UploadFacts } from "../../../domain/messages/attachments.ts"
import type { createPictures } from "../../../integrations/pictures.ts"
import type { OutboundRequests } from "../../../integrations/outbound-requests.ts"
import { newBlobName, serverFiles, uploadFile, type Blobs } from "../../../storage/core/blobs.ts"
import { FileExamination } from "../../../storage/messages/file-examination.ts"
import { missingBlob } from "../../../storage/messages/uploads.ts"
import type { Storage } from "../../../storage/storage.ts"
import { ArchiveProblem, type Archive } from "./archive.ts"
import type { ForeignFile } from "./records.ts"
import type { Report } from "./report.ts"

const day = 86_400
/** Of one file that is fetched. */
const fetchTimeoutMs = 120_000

export interface FileNeeds {
  readonly storage: Pick<Storage, "files" | "uploads" | "fileBlocks">
  readonly blobs: Blobs
  readonly archive: Archive
  /** Absent: nothing is fetched from anywhere. */
  readonly outbound?: OutboundRequests | undefined
  readonly pictures: Pick<ReturnType<typeof createPictures>, "encode">
  readonly report: Report
  readonly nowS: () => number
}

/** Why a file does not come. */
class NoFile extends Error {}

/** Files of an export, kept as the server keeps those that are sent to it. */
export function fileKeeper({ storage, blobs, archive, outbound, pictures, report, nowS }: FileNeeds) {
  async function* piecesOf({ path, url }: ForeignFile, maxBytes: number): AsyncGenerator<Buffer, void> {
    if (path !== null) {
      if ((archive.sizeOf(path) ?? 0) > maxBytes) throw new NoFile(`files of more than ${maxBytes} bytes`)
      yield* archive.read(path)
      return
    }
    if (url === null) throw new NoFile("files that are not in the archive")
    if (!outbound) throw new NoFile("files that are elsewhere (--fetch brings them)")
    try {
      yield* outbound.read(url, { timeoutMs: fetchTimeoutMs, maxBytes })
    } catch (error) {
      throw new NoFile(`files that could not be fetched: ${(error as Error).message}`)
    }
  }

  async function keptUpload(file: ForeignFile, user_id: Snowflake): Promise<UploadFacts> {
    const filename = cleanFilename(file.name)
    const declared = declaredType(file.type)
    if (isExecutableName(filename) || isExecutableType(declared)) throw new NoFile("programs")
    const blob = newBlobName()
    const key = uploadFile(blob)
    const examined = new FileExamination(declared)
    await storage.files.announce(key, nowS() + day)
    await blobs.putPieces(key, examining(piecesOf(file, limits.attachmentBytes), examined))
    const { size, hash, content_type } = examined.facts()
    if ((await storage.fileBlocks.reasonAgainst(hash)) !== undefined) throw new NoFile("blocked files")
    const missing = await missingBlob(storage.uploads, blobs, hash)
    const shown = { file: newBlobName() + keptExtension(filename), filename, content_type, size, hash }
    const created_at = nowS()
    // The message that shows it keeps it: see insertUploadUse.
    const row = { ...shown, user_id, created_at, keep_until: created_at + day }
    const phash = isHashable(content_type, size) ? null : ""
    const kept = await storage.uploads.insert(row, { blob, missing, phash })
    if (kept === undefined) throw new NoFile("files that took longer than a day")
    // The same bytes were there: what was just written is noted as unused, and swept.
    return shown
  }

  return {
    /** Undefined: it does not come, and the report says why. */
    async upload(file: ForeignFile, user_id: Snowflake): Promise<UploadFacts | undefined> {
      try {
        const kept = await keptUpload(file, user_id)
        report.count("files")
        return kept
      } catch (error) {
        report.skip(reasonOf(error), file.path ?? file.name)
        return undefined
      }
    },

    /** A picture of a server's. Undefined: it does not come, and the report says why. */
    async emoji(file: ForeignFile, server: Snowflake): Promise<(FileState & { animated: boolean }) | undefined> {
      try {
        const pieces: Buffer[] = []
        for await (const piece of piecesOf(file, limits.emojiBytes)) pieces.push(piece)
        const encoded = await pictures.encode(Buffer.concat(pieces), "emoji", true)
        if (encoded === "long" || "refusal" in encoded) throw new NoFile("emoji that are no PNG, GIF or WebP")
        const name = newBlobName()
        const key = serverFiles(server) + name
        await storage.files.announce(key, nowS() + day)
        await blobs.put(key, encoded.bytes)
        const hash = createHash("sha256").update(encoded.bytes).digest("hex")
        const { content_type, animated } = encoded
        return { file: name, content_type, hash, size: encoded.bytes.length, animated }
      } catch (error) {
        report.skip(reasonOf(error), file.path ?? file.name)
        return undefined
      }
    },
  }
}

function reasonOf(error: unknown): string {
  if (error instanceof NoFile) return error.message
  if (error instanceof ArchiveProblem) return "files that are damaged"
  if (error instanceof Failure && refused.has(error.code)) return `files that are refused: ${error.message}`
  throw error
}
const refused: ReadonlySet<string> = new Set(["empty_file", "file_type_not_allowed", "file_type_mismatch"])

async function* examining(pieces: AsyncIterable<Buffer>, examined: FileExamination): AsyncGenerator<Buffer> {
  for await (const piece of pieces) {
    examined.take(piece)
    yield piece
  }
  examined.end()
}
