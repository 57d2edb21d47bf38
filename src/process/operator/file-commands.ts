import { operatorsBlock, uploaderBlock } from "../../domain/messages/file-blocks.ts"
import { moveFiles } from "../../storage/core/move-files.ts"
import { openBlobs } from "../../storage/core/open-blobs.ts"
import { dateOf, Misuse, Refusal, requireReason, userCalled, within, type Commands } from "./saying.ts"

const usualReason = "Blocked by an operator"
/** Lines of a list. */
const maxListed = 1_000
/** Of a move: between two lines of its progress, and of the files that are named. */
const secondsPerLine = 5
const maxNamed = 20
const nowS = () => Math.floor(Date.now() / 1000)

/** Where uploaded files are, those that nobody may send, and users who may send none. */
export const fileCommands: Commands = {
  "files move": {
    takes: [],
    async run({ files }) {
      const { fallback, ...settings } = files
      if (!fallback) throw new Misuse("files move copies from FILES_FALLBACK_URL, which is not set")
      const observers = { log: { info() {}, warn: (fields: object, what: string) => console.error(what, fields) } }
      const from = openBlobs({ ...settings, place: fallback }, observers)
      const to = openBlobs(settings, observers)
      try {
        let saidAt = performance.now()
        const moved = await moveFiles(from, to, ({ copied, same, copiedBytes }) => {
          if (performance.now() < saidAt + secondsPerLine * 1000) return
          saidAt = performance.now()
          console.log(`${copied} copied (${megabytes(copiedBytes)}), ${same} there already`)
        })
        const { copied, copiedBytes, same, different, strange } = moved
        const names = different.slice(0, maxNamed).join("\n")
        if (different.length > 0)
          throw new Refusal(
            `${different.length} files are not what they were. Delete them there and run it again:\n${names}`,
          )
        const left = strange > 0 ? `, ${strange} names are no files and were left` : ""
        return `${copied} files copied (${megabytes(copiedBytes)}) and read back, ${same} were there already and are the same${left}`
      } finally {
        from.close()
        to.close()
      }
    },
  },

  "files block": {
    takes: ["HASH"],
    options: ["reason"],
    async run({ storage, given: [text], options: { reason = usualReason } }) {
      requireReason(reason)
      const block = operatorsBlock(hashOf(text!), reason, nowS(), null)
      await storage.fileBlocks.blockHash(block)
      return block.hash_type === "sha256"
        ? `${block.hash_value} can no longer be uploaded; files with it are no longer served`
        : `pictures that look like ${block.hash_value} can no longer be uploaded, and are no longer served`
    },
  },

  "files unblock": {
    takes: ["HASH"],
    async run({ storage, given: [text] }) {
      const hash = hashOf(text!)
      return (await storage.fileBlocks.unblockHash(hash)) ? `${hash} is no longer blocked` : `${hash} was not blocked`
    },
  },

  "files blocked": {
    takes: [],
    async run({ storage }) {
      const blocks = await storage.fileBlocks.blockedHashes(maxListed)
      const lines = blocks.map(({ hash_value, hash_type, reason, blocked_at, auto_blocked }) =>
        [hash_value, hash_type, dateOf(blocked_at), auto_blocked ? "by reports" : "by an operator", reason].join("  "),
      )
      return lines.join("\n") || "no file is blocked"
    },
  },

  "files missing": {
    takes: [],
    async run({ storage }) {
      const missing = await storage.uploadContents.missing(maxListed)
      const lines = missing.map(({ hash, blob, missing_since, uses }) =>
        [`uploads/${blob}`, hash, dateOf(missing_since), `of ${uses} uploads`].join("  "),
      )
      return lines.join("\n") || "no file is missing"
    },
  },

  "uploads block": {
    takes: ["USER"],
    options: ["reason", "hours"],
    async run({ storage, given: [name], options: { reason = usualReason, hours } }) {
      requireReason(reason)
      const lastsHours = within("hours", hours, 876_000)
      const user = await userCalled(storage, name!)
      const block = uploaderBlock(user.id, reason, lastsHours ?? 0, nowS(), null)
      await storage.fileBlocks.blockUploader(block)
      const { expires_at } = block
      return `${user.username} cannot upload files ${expires_at === null ? "any longer" : `until ${dateOf(expires_at)}`}`
    },
  },

  "uploads unblock": {
    takes: ["USER"],
    async run({ storage, given: [name] }) {
      const user = await userCalled(storage, name!)
      return (await storage.fileBlocks.unblockUploader(user.id))
        ? `${user.username} can upload files again`
        : `${user.username} was not blocked from uploading`
    },
  },

  "uploads blocked": {
    takes: [],
    async run({ storage }) {
      const blocks = await storage.fileBlocks.blockedUploaders(nowS(), maxListed)
      const lines = blocks.map(({ user_id, username, reason, expires_at }) =>
        [user_id, username ?? "", expires_at === null ? "permanently" : `until ${dateOf(expires_at)}`, reason].join(
          "  ",
        ),
      )
      return lines.join("\n") || "nobody is blocked from uploading"
    },
  },
}

const megabytes = (bytes: number) => `${(bytes / 1_000_000).toFixed(1)} MB`

function hashOf(text: string): string {
  if (!/^[0-9a-f]{16}$|^[0-9a-f]{64}$/i.test(text))
    throw new Misuse("HASH takes a SHA-256 in hex, or a perceptual hash of 16 hex digits")
  return text.toLowerCase()
}
