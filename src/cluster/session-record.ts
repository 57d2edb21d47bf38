/** A part of a log that a client was sent; see the gateway's `Span`. */
export interface RecordedSpan {
  readonly log: string
  readonly lo: number
  readonly hi: number | null
  readonly counted: boolean
  readonly since: number
  readonly start?: number | undefined
  readonly cuts?: Readonly<Record<string, number>> | undefined
}

/** A server that came or went; see the gateway's `GuildChange`. */
export interface RecordedChange {
  readonly server: string
  readonly s: number
  readonly isMember: boolean
  readonly isEarly?: boolean
  readonly isLookedUp?: boolean
}

/** What another worker needs to go on with a session. */
export interface SessionRecord {
  readonly id: string
  /** The worker that holds it. */
  readonly worker: string
  readonly user: string
  readonly accessSession: string
  readonly intents: number
  /** The servers that the client knows. */
  readonly guilds: readonly string[]
  /** What it was last told of servers. */
  readonly changes: readonly RecordedChange[]
  /** Which positions of which logs the client has been sent. */
  readonly spans: readonly RecordedSpan[]
  /** The call that it holds, if any; see the gateway's `VoiceHold`. */
  readonly voice?: unknown
}

/** What its key and its holder do not say already. */
export type RecordBody = Omit<SessionRecord, "id" | "worker">

/** At the front of the short form. The form of before is JSON and begins with a brace. */
const mark = "2;"

/**
 * The short form: numbers in base 36, ids as the difference to the one before, each log's name once. JSON where something
 * does not fit.
 */
export const shortRecord = (record: SessionRecord): string => shortened(record) ?? longRecord(record)

/** What the version before reads, too. */
export const longRecord = (record: SessionRecord): string => JSON.stringify({ ...record, worker: undefined })

/** Reads either form. */
export function readRecord(text: string): RecordBody {
  if (text.startsWith("{")) return JSON.parse(text) as RecordBody
  if (!text.startsWith(mark)) throw new Error("session record of an unknown form")
  const [user, accessSession, intents, guilds, changes, spans, ...voice] = text.slice(mark.length).split(";")
  const ids = idReader()
  // In the order in which they were written.
  return {
    user: ids(user!),
    accessSession: ids(accessSession!),
    intents: numberOf(intents!),
    guilds: partsOf(guilds!, ",").map(ids),
    changes: partsOf(changes!, ",").map(one => readChange(one, ids)),
    spans: readSpans(spans!, ids),
    voice: JSON.parse(voice.join(";")) as unknown,
  }
}

function shortened({ user, accessSession, intents, guilds, changes, spans, voice }: SessionRecord): string | undefined {
  const ids = new IdWriter()
  const numbers = new NumberWriter()
  const text = [
    ids.write(user),
    ids.write(accessSession),
    numbers.write(intents),
    guilds.map(id => ids.write(id)).join(","),
    changes
      .map(
        ({ server, s, isMember, isEarly, isLookedUp }) =>
          `${ids.write(server)}:${numbers.write(s)}:${(isMember ? 1 : 0) + (isEarly ? 2 : 0) + (isLookedUp ? 4 : 0)}`,
      )
      .join(","),
    writeSpans(spans, ids, numbers),
    JSON.stringify(voice ?? null),
  ].join(";")
  return ids.fits && numbers.fits && spans.every(({ log }) => nameForm.test(log)) ? mark + text : undefined
}

const nameForm = /^[\w.-]+$/
/** Ids are written in two halves, because numbers hold no more than 15 digits. */
const halfDigits = 9
const half = 10 ** halfDigits
/** Of a lower half in base 36. */
const halfLength = 6

/** Two digits of base 36 at a time: `toString(36)` takes five times as long. */
const pairBase = 36 * 36
const pairs = Array.from({ length: pairBase }, (_, n) => n.toString(36).padStart(2, "0"))

/** A number of base 36, perhaps with a zero in front. */
function digitsOf(number: number): string {
  if (number < 0) return `-${digitsOf(-number)}`
  let text = ""
  let left = number
  do {
    const next = Math.floor(left / pairBase)
    text = pairs[left - next * pairBase]! + text
    left = next
  } while (left > 0)
  return text
}

/** Such a number below `half`, always of the same length. */
function digitsOfHalf(number: number): string {
  const upper = Math.floor(number / pairBase)
  const top = Math.floor(upper / pairBase)
  return pairs[top]! + pairs[upper - top * pairBase]! + pairs[number - upper * pairBase]!
}

class IdWriter {
  fits = true
  #before = 0

  write(id: string): string {
    const end = id.length - halfDigits
    const high = this.#read(id, 0, end)
    const low = this.#read(id, Math.max(end, 0), id.length)
    if (id === "" || id.length > 19 || (id.startsWith("0") && id !== "0")) this.fits = false
    if (!this.fits) return ""
    const difference = high - this.#before
    this.#before = high
    return (difference === 0 ? "" : digitsOf(difference)) + digitsOfHalf(low)
  }

  /** What some of its digits say. */
  #read(id: string, from: number, to: number): number {
    let number = 0
    for (let i = from; i < to; i++) {
      const digit = id.charCodeAt(i) - 48
      if (digit < 0 || digit > 9) this.fits = false
      number = number * 10 + digit
    }
    return number
  }
}

function idReader(): (text: string) => string {
  let before = 0
  return text => {
    before += numberOf(text.slice(0, -halfLength))
    const low = numberOf(text.slice(-halfLength))
    return before === 0 ? String(low) : `${before}${String(half + low).slice(1)}`
  }
}

class NumberWriter {
  fits = true

  write(number: number): string {
    if (!Number.isSafeInteger(number)) this.fits = false
    return this.fits ? digitsOf(number) : ""
  }
}

const numberOf = (text: string): number => (text === "" ? 0 : Number.parseInt(text, 36))
const partsOf = (text: string, separator: string): string[] => (text === "" ? [] : text.split(separator))

/** "log~lo~hi~counted~since~start~cuts", the last ones left out where they are empty; the log by its name or its number. */
function writeSpans(spans: readonly RecordedSpan[], ids: IdWriter, numbers: NumberWriter): string {
  const logs: string[] = []
  return spans
    .map(({ log, lo, hi, counted, since, start, cuts }) => {
      const known = logs.indexOf(log)
      if (known < 0) logs.push(log)
      return [
        known < 0 ? `=${log}` : known.toString(36),
        numbers.write(lo),
        hi === null ? "" : numbers.write(hi - lo),
        counted ? "c" : "",
        since === lo ? "" : numbers.write(since - lo),
        start === undefined ? "" : numbers.write(start),
        cuts ? `*${writeCuts(cuts, ids, numbers)}` : "",
      ]
        .join("~")
        .replace(/~+$/, "")
    })
    .join(",")
}

const writeCuts = (cuts: Readonly<Record<string, number>>, ids: IdWriter, numbers: NumberWriter): string =>
  Object.entries(cuts)
    .map(([home, row]) => `${ids.write(home)}:${numbers.write(row)}`)
    .join("*")

function readSpans(text: string, ids: (text: string) => string): RecordedSpan[] {
  const logs: string[] = []
  return partsOf(text, ",").map(one => {
    const [log = "", lo = "", hi = "", counted = "", since = "", start = "", cuts = ""] = one.split("~")
    if (log.startsWith("=")) logs.push(log.slice(1))
    const from = numberOf(lo)
    return {
      log: log.startsWith("=") ? log.slice(1) : logs[numberOf(log)]!,
      lo: from,
      hi: hi === "" ? null : from + numberOf(hi),
      counted: counted !== "",
      since: from + numberOf(since),
      ...(start !== "" && { start: numberOf(start) }),
      ...(cuts !== "" && { cuts: readCuts(cuts.slice(1), ids) }),
    }
  })
}

const readCuts = (text: string, ids: (text: string) => string): Record<string, number> =>
  Object.fromEntries(
    partsOf(text, "*").map(one => {
      const [home, row] = one.split(":")
      return [ids(home!), numberOf(row!)]
    }),
  )

function readChange(text: string, ids: (text: string) => string): RecordedChange {
  const [server, s, flags] = text.split(":")
  const bits = Number(flags)
  return {
    server: ids(server!),
    s: numberOf(s!),
    isMember: (bits & 1) !== 0,
    ...((bits & 2) !== 0 && { isEarly: true }),
    ...((bits & 4) !== 0 && { isLookedUp: true }),
  }
}
