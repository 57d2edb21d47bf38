import { openBlobs } from "../../storage/core/open-blobs.ts"
import { moveFiles } from "../../storage/core/move-files.ts"
import { Misuse, Refusal, type Commands } from "./saying.ts"

const secondsPerLine = 5
/** Of the files that are named. */
const maxNamed = 20

/** Where uploaded files are. */
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
}

const megabytes = (bytes: number) => `${(bytes / 1_000_000).toFixed(1)} MB`
