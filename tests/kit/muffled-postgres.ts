import { openRelay } from "./relay.ts"

/** What becomes of what PostgreSQL announces. */
export interface Muffled {
  readonly url: string
  /** Connections by what their clients call themselves: while it is so, nothing passes on them, and nobody is told. */
  silence: (name: string) => boolean
  /** Connections that are silent. */
  readonly silenced: number
  /** Announcements that have vanished. */
  readonly dropped: number
  close(): Promise<void>
}

/** The way to a database on which announcements vanish, as behind a pooler, or connections fall silent. */
export async function muffled(target: string, { dropsAnnouncements = false } = {}): Promise<Muffled> {
  const silent = new Set<object>()
  let dropped = 0
  const { url, close } = await openRelay(target, () => {
    const connection = {}
    let name: string | undefined
    const isSilent = () => {
      if (way.silence(name ?? "")) silent.add(connection)
      return silent.has(connection)
    }
    const pass = dropsAnnouncements ? withoutAnnouncements(() => dropped++) : (bytes: Buffer) => bytes
    return {
      up(bytes) {
        name ??= /application_name\0([^\0]*)/.exec(bytes.toString("latin1"))?.[1] ?? ""
        return isSilent() ? undefined : bytes
      },
      down: bytes => (isSilent() ? undefined : pass(bytes)),
      endsBoth: () => !silent.has(connection),
    }
  })
  const way: Muffled = {
    url,
    silence: () => false,
    get silenced() {
      return silent.size
    },
    get dropped() {
      return dropped
    },
    close,
  }
  return way
}

/** Takes out of what PostgreSQL says every NotificationResponse, which begins with an A. */
function withoutAnnouncements(onDropped: () => void): (bytes: Buffer) => Buffer {
  let rest: Buffer = Buffer.alloc(0)
  return bytes => {
    rest = rest.length === 0 ? bytes : Buffer.concat([rest, bytes])
    const passed: Buffer[] = []
    while (rest.length >= 5 && rest.length > rest.readUInt32BE(1)) {
      const message = rest.subarray(0, 1 + rest.readUInt32BE(1))
      rest = rest.subarray(message.length)
      if (message[0] === "A".charCodeAt(0)) onDropped()
      else passed.push(message)
    }
    return Buffer.concat(passed)
  }
}
