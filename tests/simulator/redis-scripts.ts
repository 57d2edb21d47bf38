import { createHash } from "node:crypto"
import { epochMs } from "../../src/domain/core/snowflake.ts"
import { commands, notSimulated, refusal, type Execute, type Keyspace } from "./redis-commands.ts"

/*
 * The scripts of src/cluster/lua, one function each, kept equal to them by redis.test.ts. `args` holds the keys and then
 * the arguments. As in Redis, a script that fails half-way leaves what it did.
 */

/** Lua's `tonumber`, as far as the scripts go. */
function luaNumber(text: string | null | undefined): number | undefined {
  if (text === undefined || text === null || text.trim() === "") return undefined
  const n = Number(text)
  return Number.isNaN(n) ? undefined : n
}

/** An argument that the program always writes as a number. */
function numberOf(text: string | undefined): number {
  const n = luaNumber(text)
  if (n === undefined) throw notSimulated(`a script with ${text} for a number`)
  return n
}

/** The position of this moment. */
const positionNow = (keyspace: Keyspace) => (keyspace.now() - epochMs) * 4096

const lastPosition = (keyspace: Keyspace, key: string) => luaNumber(keyspace.hash(key)?.fields.get("s"))

/** What `redis.call` failed, so that the message can name its line. */
interface Misstep extends Error {
  call?: string
}

function addTo(keyspace: Keyspace, log: string, last: number, fields: string[]): boolean {
  try {
    return keyspace.append(log, last, 0, fields, false) !== null
  } catch (error) {
    throw Object.assign(error as Misstep, { call: "XADD'" })
  }
}

/** Wakes the worker whose log has grown. */
function ring(keyspace: Keyspace, inbox: string, last: number): void {
  try {
    commands["xadd"]![1](keyspace, [inbox, "NOMKSTREAM", "*", "l", `[${last}]`])
  } catch (error) {
    throw Object.assign(error as Misstep, { call: "XADD', KEYS[3], '" })
  }
}

/** What one XADD of append.lua takes: fields and values, and their bytes if they are those of several events. */
const maxFields = 4000
const maxEntryBytes = 262_144

/** Where the entry that begins at a field ends. */
function endOfEntry(fields: readonly string[], from: number): number {
  const bytesAt = (at: number) => Buffer.byteLength(fields[at]!) + Buffer.byteLength(fields[at + 1]!)
  let bytes = bytesAt(from)
  let to = from + 2
  while (to < fields.length && to - from < maxFields && (bytes += bytesAt(to)) <= maxEntryBytes) to += 2
  return to
}

function append(keyspace: Keyspace, args: string[]): string[] {
  const log = args[0]!
  const position = args[1]!
  let last = lastPosition(keyspace, position)
  const start = last
  const answers: string[] = []
  const fields: string[] = []
  const reachedNow = new Map<string, number>()
  const moved: string[] = []
  const known = last === undefined ? undefined : keyspace.hash(position)!.fields
  for (let i = 4; i < args.length;) {
    const shard = args[i]!
    const before = args[i + 3]!
    const first = i + 5
    i = first + numberOf(args[i + 4])
    if (known === undefined) {
      answers.push("nolog")
      continue
    }
    const number = numberOf(args[first - 3])
    const reached = reachedNow.get(shard) ?? luaNumber(known.get(`n${shard}`)) ?? 0
    if (numberOf(args[first - 4]) < (luaNumber(known.get(`e${shard}`)) ?? 0)) answers.push("stale")
    else if (number <= reached) answers.push("dup")
    else if (before !== "" && numberOf(before) !== reached) answers.push(`link ${reached}`)
    else {
      reachedNow.set(shard, number)
      moved.push(`n${shard}`, args[first - 3]!, `e${shard}`, args[first - 4]!)
      for (let f = first; f < i; f++) fields.push(args[f]!)
      answers.push("ok")
    }
  }
  if (last === undefined || known === undefined) return answers
  if (fields.length === 0) return [...answers, String(start), String(last)]
  const now = positionNow(keyspace)
  for (let from = 0, to = 0; from < fields.length; from = to) {
    to = endOfEntry(fields, from)
    const part = fields.slice(from, to)
    last = Math.max(last + 1, now) + part.length / 2 - 1
    if (!addTo(keyspace, log, last, part)) return ["nolog"]
  }
  for (let m = 0; m < moved.length; m += 2) known.set(moved[m]!, moved[m + 1]!)
  known.set("s", String(last))
  if (args[3] === "ring") ring(keyspace, args[2]!, last)
  return [...answers, String(start), String(last)]
}

function appendEphemeral(keyspace: Keyspace, args: string[]): [from: string, to: string] | null {
  const from = lastPosition(keyspace, args[1]!)
  if (from === undefined) return null
  const last = Math.max(from + 1, positionNow(keyspace)) + (args.length - 4) / 2 - 1
  if (!addTo(keyspace, args[0]!, last, args.slice(4))) return null
  keyspace.setField(args[1]!, "s", String(last))
  if (args[3] === "ring") ring(keyspace, args[2]!, last)
  return [String(from), String(last)]
}

function mark(keyspace: Keyspace, args: string[]): string | null {
  let last = lastPosition(keyspace, args[1]!)
  if (last === undefined) return null
  const now = positionNow(keyspace)
  const floor = numberOf(args[2])
  if (floor > Math.max(last, now) + 3_600_000 * 4096) return null
  const first = Math.max(last, now, floor) + 1
  last = first + numberOf(args[3]) - 1
  addTo(keyspace, args[0]!, last, [args[4]!, ""])
  keyspace.setField(args[1]!, "s", String(last))
  return String(first)
}

/** Entries that one XRANGE of readLog.lua takes, and after how many bytes for each of those before it takes fewer. */
const readBatchSize = { small: 16, large: 4 }
const smallBytes = 4096

function readLog(keyspace: Keyspace, args: string[]): [id: string, fields: string[]][] {
  const stream = keyspace.stream(args[0]!)
  if (stream === undefined) return []
  const [ms, sequence] = args[1]!.split("-")
  const [maxBytes, maxEntries] = [numberOf(args[2]), numberOf(args[3])]
  const found: [id: string, fields: string[]][] = []
  let bytes = 0
  let at = stream.indexAfter(numberOf(ms), sequence === undefined ? 0 : numberOf(sequence))
  while (bytes < maxBytes && found.length < maxEntries) {
    const isSmall = found.length > 0 && bytes < found.length * smallBytes
    const count = Math.min(isSmall ? readBatchSize.small : readBatchSize.large, maxEntries - found.length)
    const next = stream.slice(at, Math.min(at + count, stream.length))
    for (const entry of next) {
      found.push(entry)
      for (const field of entry[1]) bytes += Buffer.byteLength(field)
    }
    if (next.length < count) break
    at += count
  }
  return found
}

function firstEntry(keyspace: Keyspace, args: string[]): [id: string, fields: number, header: string] | null {
  const stream = keyspace.stream(args[0]!)
  if (stream === undefined || stream.length === 0) return null
  const [id, fields] = stream.slice(0, 1)[0]!
  return [id, fields.length, fields[0]!]
}

function claimSessions(keyspace: Keyspace, args: string[], keys = 0): (0 | 1)[] {
  return args.slice(0, keys).map((record, i) => {
    const [from, to] = args.slice(keys + 2 * i) as [string, string]
    if (keyspace.hash(record)?.fields.get("worker") !== from) return 0
    if (to === "") keyspace.delete(record)
    else keyspace.setField(record, "worker", to)
    return 1
  })
}

function loadSessions(keyspace: Keyspace, args: string[], keys = 0): (string | null)[][] {
  return args.slice(0, keys).map(record => {
    const fields = keyspace.hash(record)?.fields
    return ["worker", "record"].map(name => fields?.get(name) ?? null)
  })
}

function saveSession(keyspace: Keyspace, args: string[]): 0 | 1 {
  const key = args[0]!
  const holder = keyspace.hash(key)?.fields.get("worker")
  if (holder !== undefined && holder !== args[1]) return 0
  keyspace.setField(key, "worker", args[1]!)
  keyspace.setField(key, "record", args[2]!)
  keyspace.hash(key)!.expiresAt = keyspace.now() + numberOf(args[3]) * 1000
  return 1
}

/** After the keys: for each the epoch, the action, and how many fields and values follow, then these. */
function saveInterests(keyspace: Keyspace, args: string[], keys = 0): (0 | 1)[] {
  let at = keys
  return args.slice(0, keys).map(key => {
    const [epoch, action, count] = args.slice(at, at + 3) as [string, string, string]
    const fields = args.slice(at + 3, at + 3 + numberOf(count))
    at += 3 + fields.length
    const known = luaNumber(keyspace.hash(key)?.fields.get("-"))
    if (known !== undefined && known > numberOf(epoch)) return 0
    if (action === "replace") keyspace.delete(key)
    if (action === "remove") {
      const hash = keyspace.hash(key)
      for (const field of fields) hash?.fields.delete(field)
      if (hash?.fields.size === 0) keyspace.delete(key)
    } else for (let i = 0; i < fields.length; i += 2) keyspace.setField(key, fields[i]!, fields[i + 1]!)
    if (known !== undefined || action === "replace") keyspace.setField(key, "-", epoch)
    return 1
  })
}

/** Where tokens.ts keeps a session's last activity. */
const activityAt = 65

function amendSession(keyspace: Keyspace, args: string[], keys = 0): (0 | 1)[] {
  return args.slice(0, keys).map((key, i) => {
    const value = keyspace.text(key)
    if (value === undefined || value.text === "revoked") return 0
    const seconds = args[keys + i]!
    if (numberOf(seconds) - numberOf(value.text.slice(activityAt, activityAt + 10)) < 60) return 0
    value.text = value.text.slice(0, activityAt) + seconds + value.text.slice(activityAt + seconds.length)
    return 1
  })
}

function connectSession(keyspace: Keyspace, args: string[]): string[] {
  const [key, session, worker, seconds] = args as [string, string, string, string]
  keyspace.setField(key, session, worker)
  const hash = keyspace.hash(key)!
  hash.expiresAt = keyspace.now() + numberOf(seconds) * 1000
  return [...hash.fields.values()]
}

function beginSessions(keyspace: Keyspace, args: string[]): (string[] | 0)[] {
  const count = (args.length - 2) / 4
  const [worker, seconds, ...told] = args.slice(2 * count) as [string, string, ...string[]]
  return Array.from({ length: count }, (_, i) => {
    const record = args[2 * i + 1]!
    const holder = keyspace.hash(record)?.fields.get("worker")
    if (holder !== undefined && holder !== worker) return 0
    const workers = connectSession(keyspace, [args[2 * i]!, told[2 * i]!, worker, seconds])
    keyspace.setField(record, "worker", worker)
    keyspace.setField(record, "record", told[2 * i + 1]!)
    keyspace.hash(record)!.expiresAt = keyspace.now() + numberOf(seconds) * 1000
    return workers
  })
}

function disconnectSession(keyspace: Keyspace, args: string[]): string[] {
  const [key, session, worker] = args as [string, string, string]
  const fields = keyspace.hash(key)?.fields
  if (fields?.get(session) === worker) fields.delete(session)
  if (fields?.size === 0) keyspace.delete(key)
  return [...(fields?.values() ?? [])]
}

/** By the name under which src/cluster registers them: the number of keys, and what the script does. */
const scripts: Readonly<Record<string, Execute>> = {
  append,
  appendEphemeral,
  mark,
  readLog,
  firstEntry,
  "claim-sessions": claimSessions,
  "load-sessions": loadSessions,
  "save-session": saveSession,
  "connect-session": connectSession,
  "disconnect-session": disconnectSession,
  "begin-sessions": beginSessions,
  "save-interests": saveInterests,
  "amend-session": amendSession,
}

const registered = new Map<string, Execute>()

/** What a script does, with its failures worded as Redis words them; undefined for one that is not simulated. */
export function scriptOf(name: string, lua: string): Execute | undefined {
  const run = scripts[name]
  if (run === undefined) return undefined
  const known = registered.get(lua)
  if (known !== undefined) return known
  const execute: Execute = (keyspace, args, keys) => {
    try {
      return run(keyspace, args, keys)
    } catch (error) {
      throw error instanceof Error && error.name === "ReplyError" ? inScript(error, lua) : error
    }
  }
  registered.set(lua, execute)
  return execute
}

/** A call that fails inside a script; the first in it unless it is another. */
function inScript({ message, call }: Misstep, lua: string): Error {
  const line = lua.slice(0, lua.indexOf(`redis.call(${call ? `'${call}` : ""}`)).split("\n").length
  const sha = createHash("sha1").update(lua).digest("hex")
  return refusal(`${message} script: ${sha}, on @user_script:${line}.`)
}
