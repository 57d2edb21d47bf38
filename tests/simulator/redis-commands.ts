import { ReplyError } from "ioredis"
import { Stream, type StreamEntry } from "./redis-stream.ts"

/** What is kept at one key. `expiresAt` is 0 for ever. */
class Text {
  text: string
  expiresAt: number

  constructor(text: string, expiresAt: number) {
    this.text = text
    this.expiresAt = expiresAt
  }

  copy(): Text {
    return new Text(this.text, this.expiresAt)
  }
}

class Hash {
  readonly fields: Map<string, string>
  expiresAt = 0

  constructor(fields = new Map<string, string>()) {
    this.fields = fields
  }

  copy(): Hash {
    const copy = new Hash(new Map(this.fields))
    copy.expiresAt = this.expiresAt
    return copy
  }
}

type Value = Text | Hash | Stream

/** What Redis answers to a command that it refuses. */
export const refusal = (message: string): Error => new ReplyError(message) as Error

/** The program uses no such form: a change that adds it adds it here too. */
export const notSimulated = (what: string): Error => new Error(`the simulated Redis does not know ${what}`)

const wrongType = () => refusal("WRONGTYPE Operation against a key holding the wrong kind of value")
const wrongId = () => refusal("ERR Invalid stream ID specified as stream command argument")
const notAnInteger = () => refusal("ERR value is not an integer or out of range")
const syntax = () => refusal("ERR syntax error")
const wrongCount = (name: string) => refusal(`ERR wrong number of arguments for '${name}' command`)

/** Everything that a Redis keeps. */
export class Keyspace {
  readonly #now: () => number
  #values = new Map<string, Value>()
  /** The streams that grew since somebody looked, in order. */
  appended: string[] = []

  constructor(now: () => number) {
    this.#now = now
  }

  /** Unix milliseconds, whole. */
  now(): number {
    return Math.floor(this.#now())
  }

  find(key: string): Value | undefined {
    const value = this.#values.get(key)
    if (value === undefined || value.expiresAt === 0 || this.now() <= value.expiresAt) return value
    this.#values.delete(key)
    return undefined
  }

  text(key: string): Text | undefined {
    const value = this.find(key)
    if (value === undefined || value instanceof Text) return value
    throw wrongType()
  }

  hash(key: string): Hash | undefined {
    const value = this.find(key)
    if (value === undefined || value instanceof Hash) return value
    throw wrongType()
  }

  stream(key: string): Stream | undefined {
    const value = this.find(key)
    if (value === undefined || value instanceof Stream) return value
    throw wrongType()
  }

  setText(key: string, text: string, expiresAt: number): void {
    this.#values.set(key, new Text(text, expiresAt))
  }

  setField(key: string, field: string, value: string): boolean {
    let hash = this.hash(key)
    if (hash === undefined) {
      hash = new Hash()
      this.#values.set(key, hash)
    }
    const before = hash.fields.size
    hash.fields.set(field, value)
    return hash.fields.size > before
  }

  newStream(key: string): Stream {
    const stream = new Stream()
    this.#values.set(key, stream)
    return stream
  }

  /** Appends an entry, to a stream that exists unless `make`. @returns its id; null without a stream */
  append(key: string, ms: number, seq: number, fields: string[], make: boolean): string | null {
    if (ms === 0 && seq === 0) throw refusal("ERR The ID specified in XADD must be greater than 0-0")
    let stream = this.stream(key)
    if (stream === undefined) {
      if (!make) return null
      stream = this.newStream(key)
    }
    if (!stream.mayAppend(ms, seq))
      throw refusal("ERR The ID specified in XADD is equal or smaller than the target stream top item")
    this.appended.push(key)
    return stream.append(ms, seq, fields)
  }

  delete(key: string): boolean {
    return this.find(key) !== undefined && this.#values.delete(key)
  }

  flush(): void {
    this.#values.clear()
  }

  copy(): Map<string, Value> {
    const copy = new Map<string, Value>()
    for (const [key, value] of this.#values) copy.set(key, value.copy())
    return copy
  }

  replace(values: ReadonlyMap<string, Value>): void {
    this.#values = new Map()
    for (const [key, value] of values) this.#values.set(key, value.copy())
  }
}

interface Id {
  ms: number
  seq: number
}

function digits(text: string, from: number, to: number): number {
  if (from >= to) throw wrongId()
  let n = 0
  for (let i = from; i < to; i++) {
    const digit = text.charCodeAt(i) - 48
    if (digit < 0 || digit > 9) throw wrongId()
    n = n * 10 + digit
  }
  if (n > Number.MAX_SAFE_INTEGER) throw notSimulated(`the id ${text}`)
  return n
}

/** `<ms>-<seq>` or `<ms>` from a place in a text. */
function parseId(text: string, from: number, missingSeq: number): Id {
  const dash = text.indexOf("-", from)
  if (dash === -1) return { ms: digits(text, from, text.length), seq: missingSeq }
  return { ms: digits(text, from, dash), seq: digits(text, dash + 1, text.length) }
}

function integer(text: string | undefined): number {
  if (text === undefined) throw syntax()
  if (!/^(0|-?[1-9]\d{0,14})$/.test(text)) throw notAnInteger()
  return Number(text)
}

export interface StreamRead {
  /** 0: all. */
  readonly count: number
  /** Milliseconds, 0 for ever; undefined: does not block. */
  readonly block: number | undefined
  readonly keys: readonly string[]
  /** The ids after which entries are wanted, one a key. */
  readonly after: readonly Id[]
}

export function parseRead(keyspace: Keyspace, args: readonly string[]): StreamRead {
  let count = 0
  let block: number | undefined
  for (let i = 0; i < args.length; i += 2) {
    const word = args[i]!
    if (word === "COUNT") count = Math.max(0, integer(args[i + 1]))
    else if (word === "BLOCK") {
      block = integer(args[i + 1])
      if (block < 0) throw refusal("ERR timeout is negative")
    } else if (word === "STREAMS") {
      const streams = (args.length - i - 1) / 2
      if (!Number.isInteger(streams) || streams === 0) throw notSimulated("xread with keys that lack an id")
      const keys = args.slice(i + 1, i + 1 + streams)
      const after = keys.map((key, k) => {
        const text = args[i + 1 + streams + k]!
        const stream = keyspace.stream(key)
        if (text !== "$") return parseId(text, 0, 0)
        return { ms: stream?.lastMs ?? 0, seq: stream?.lastSeq ?? 0 }
      })
      return { count, block, keys, after }
    } else throw notSimulated(`xread ${word}`)
  }
  throw syntax()
}

/** The entries of the k-th stream of a read. */
export function entriesFor(keyspace: Keyspace, read: StreamRead, k: number): StreamEntry[] | undefined {
  const stream = keyspace.stream(read.keys[k]!)
  if (stream === undefined) return undefined
  const { ms, seq } = read.after[k]!
  const from = stream.indexAfter(ms, seq)
  if (from === stream.length) return undefined
  return stream.slice(from, read.count === 0 ? stream.length : Math.min(stream.length, from + read.count))
}

export type StreamReadReply = [key: string, entries: StreamEntry[]][]

export function readNow(keyspace: Keyspace, read: StreamRead): StreamReadReply | null {
  let reply: StreamReadReply | null = null
  for (let k = 0; k < read.keys.length; k++) {
    const entries = entriesFor(keyspace, read, k)
    if (entries !== undefined) (reply ??= []).push([read.keys[k]!, entries])
  }
  return reply
}

/** `keys`: of a script, how many of the arguments are keys. */
export type Execute = (keyspace: Keyspace, args: string[], keys?: number) => unknown

function set(keyspace: Keyspace, args: string[]): "OK" | null {
  let expiresAt = 0
  let onlyNew = false
  for (let i = 2; i < args.length; i++) {
    const word = args[i]!
    if (word === "NX") onlyNew = true
    else if (word === "EX" || word === "PX") {
      const length = integer(args[++i])
      if (length <= 0) throw refusal("ERR invalid expire time in 'set' command")
      expiresAt = keyspace.now() + length * (word === "EX" ? 1000 : 1)
    } else throw notSimulated(`set ${word}`)
  }
  if (onlyNew && keyspace.find(args[0]!) !== undefined) return null
  keyspace.setText(args[0]!, args[1]!, expiresAt)
  return "OK"
}

function expire(keyspace: Keyspace, args: string[]): 0 | 1 {
  if (args.length > 2) throw notSimulated(`expire ${args[2]}`)
  const seconds = integer(args[1])
  const value = keyspace.find(args[0]!)
  if (value === undefined) return 0
  if (seconds <= 0) keyspace.delete(args[0]!)
  else value.expiresAt = keyspace.now() + seconds * 1000
  return 1
}

function ttl(keyspace: Keyspace, args: string[]): number {
  const value = keyspace.find(args[0]!)
  if (value === undefined) return -2
  return value.expiresAt === 0 ? -1 : Math.floor((value.expiresAt - keyspace.now() + 500) / 1000)
}

function count(keys: string[], counts: (key: string) => boolean): number {
  let n = 0
  for (const key of keys) if (counts(key)) n++
  return n
}

const remove: Execute = (keyspace, args) => count(args, key => keyspace.delete(key))

function hset(keyspace: Keyspace, args: string[]): number {
  if (args.length % 2 === 0) throw wrongCount("hset")
  let added = 0
  for (let i = 1; i < args.length; i += 2) if (keyspace.setField(args[0]!, args[i]!, args[i + 1]!)) added++
  return added
}

function hdel(keyspace: Keyspace, args: string[]): number {
  const hash = keyspace.hash(args[0]!)
  if (hash === undefined) return 0
  let removed = 0
  for (let i = 1; i < args.length; i++) if (hash.fields.delete(args[i]!)) removed++
  if (hash.fields.size === 0) keyspace.delete(args[0]!)
  return removed
}

function hgetall(keyspace: Keyspace, args: string[]): Record<string, string> {
  const fields: Record<string, string> = {}
  for (const [field, value] of keyspace.hash(args[0]!)?.fields ?? [])
    if (field in fields)
      Object.defineProperty(fields, field, { value, configurable: true, enumerable: true, writable: true })
    else fields[field] = value
  return fields
}

function xadd(keyspace: Keyspace, args: string[]): string | null {
  const make = args[1] !== "NOMKSTREAM"
  const at = make ? 1 : 2
  const text = args[at]!
  const star = text === "*"
  const id = star ? undefined : parseId(text, 0, 0)
  if (args.length - at < 3 || (args.length - at) % 2 === 0) throw wrongCount("xadd")
  const fields = args.slice(at + 1)
  if (id !== undefined) return keyspace.append(args[0]!, id.ms, id.seq, fields, make)
  const stream = keyspace.stream(args[0]!)
  const now = keyspace.now()
  if (stream === undefined || now > stream.lastMs) return keyspace.append(args[0]!, now, 0, fields, make)
  return keyspace.append(args[0]!, stream.lastMs, stream.lastSeq + 1, fields, make)
}

interface Bound extends Id {
  readonly exclusive: boolean
}

function parseBound(text: string, missingSeq: number): Bound {
  if (text === "-") return { ms: 0, seq: 0, exclusive: false }
  if (text === "+") return { ms: Infinity, seq: Infinity, exclusive: false }
  const exclusive = text.startsWith("(")
  return { ...parseId(text, exclusive ? 1 : 0, missingSeq), exclusive }
}

function range(
  keyspace: Keyspace,
  args: string[],
  startText: string,
  endText: string,
  reverse: boolean,
): StreamEntry[] | null {
  const start = parseBound(startText, 0)
  const end = parseBound(endText, Infinity)
  if (end.exclusive && end.ms === 0 && end.seq === 0) throw refusal("ERR invalid end ID for the interval")
  let most = Infinity
  if (args.length > 3) {
    if (args[3] !== "COUNT") throw syntax()
    most = Math.max(0, integer(args[4]))
  }
  const stream = keyspace.stream(args[0]!)
  if (stream === undefined) return []
  if (most === 0) return null
  const from = stream.indexAfter(start.ms, start.exclusive ? start.seq : start.seq - 1)
  const to = stream.indexAfter(end.ms, end.exclusive ? end.seq - 1 : end.seq)
  return reverse ? stream.slice(Math.max(from, to - most), to).reverse() : stream.slice(from, Math.min(to, from + most))
}

function xtrim(keyspace: Keyspace, args: string[]): number {
  if (args.length !== 4 || args[1] !== "MINID" || args[2] !== "~") throw notSimulated(`xtrim ${args.join(" ")}`)
  const { ms, seq } = parseId(args[3]!, 0, 0)
  return keyspace.stream(args[0]!)?.trim(ms, seq) ?? 0
}

/** Every command that the program sends: how many words it has (negative: at least), and what it does. */
export const commands: Readonly<Record<string, readonly [words: number, execute: Execute]>> = {
  ping: [-1, (_keyspace, args) => args[0] ?? "PONG"],
  get: [2, (keyspace, args) => keyspace.text(args[0]!)?.text ?? null],
  set: [-3, set],
  mget: [
    -2,
    (keyspace, args) =>
      args.map(key => {
        const value = keyspace.find(key)
        return value instanceof Text ? value.text : null
      }),
  ],
  del: [-2, remove],
  unlink: [-2, remove],
  exists: [-2, (keyspace, args) => count(args, key => keyspace.find(key) !== undefined)],
  expire: [-3, expire],
  ttl: [2, ttl],
  hget: [3, (keyspace, args) => keyspace.hash(args[0]!)?.fields.get(args[1]!) ?? null],
  hmget: [
    -3,
    (keyspace, args) => {
      const hash = keyspace.hash(args[0]!)
      return args.slice(1).map(field => hash?.fields.get(field) ?? null)
    },
  ],
  hgetall: [2, hgetall],
  hset: [-4, hset],
  hdel: [-3, hdel],
  xadd: [-5, xadd],
  xlen: [2, (keyspace, args) => keyspace.stream(args[0]!)?.length ?? 0],
  xrange: [-4, (keyspace, args) => range(keyspace, args, args[1]!, args[2]!, false)],
  xrevrange: [-4, (keyspace, args) => range(keyspace, args, args[2]!, args[1]!, true)],
  xtrim: [-4, xtrim],
  xread: [-4, (keyspace, args) => readNow(keyspace, parseRead(keyspace, args))],
}

/** The refusal of a command with too few or too many words. */
export function refusalOfWords(name: string, words: number, args: readonly string[]): Error | undefined {
  const given = args.length + 1
  return (words < 0 ? given < -words : given !== words) ? wrongCount(name) : undefined
}
