/**
 * Reading a recorded conversation, and naming its parts as a server takes them. Pure: no file, no
 * clock, no network.
 */

import { codePoints } from "../src/contract/core/fields.ts"
import { limits } from "../src/contract/core/limits.ts"

export interface Line {
  /** Unix seconds. */
  at: number
  server: string
  channel: string
  /** A display name in any script. */
  author: string
  text: string
}

const isText = (value: unknown): value is string => typeof value === "string"

/** One line of a JSON lines file. Throws where it is not one. */
export function parseLine(json: string): Line {
  const value = JSON.parse(json) as Record<string, unknown> | null
  const { at, server, channel, author, text } = value ?? {}
  if (typeof at !== "number" || ![server, channel, author, text].every(isText)) {
    throw new SyntaxError("a line needs at (number), server, channel, author and text (strings)")
  }
  return { at, server, channel, author, text } as Line
}

/**
 * The arguments of `git` that write what `parseCommit` reads. `mark` is a word that no commit
 * message holds.
 */
export const gitLog = (mark: string) => [
  "log",
  "--reverse",
  "--name-only",
  "-z",
  "--encoding=UTF-8",
  `--format=${mark}%at%x00%aN%x00%B%x00`,
]

/**
 * What stands between two marks: time, author, message, then the changed files, each ended by NUL.
 * Git puts a line break before the first file, and one after the message, which is not the
 * author's.
 */
export function parseCommit(server: string, record: string): Line {
  const [at = "", author = "", body = "", ...files] = record.split("\0")
  if (!/^\d+$/.test(at))
    throw new SyntaxError(`git log says something unexpected: ${JSON.stringify(record.slice(0, 80))}`)
  const paths = files.map(file => file.replace(/^\n/, "")).filter(file => file !== "")
  return { at: Number(at), server, channel: topFolder(paths), author, text: body.replace(/\n$/, "") }
}

/**
 * The top-level folder that most of the files are in, the first one where they are even; `root` for
 * files in none.
 */
export function topFolder(paths: readonly string[]): string {
  const counts = new Map<string, number>()
  for (const path of paths) {
    const slash = path.indexOf("/")
    const folder = slash < 0 ? "root" : path.slice(0, slash)
    counts.set(folder, (counts.get(folder) ?? 0) + 1)
  }
  let most = "root"
  for (const [folder, count] of counts) if (count > (counts.get(most) ?? 0)) most = folder
  return most
}

/** Why a text cannot be sent, or undefined when it can. */
export function unsendable(text: string): string | undefined {
  if (text.trim() === "") return "blank"
  if (codePoints(text) > limits.messageCharacters) return `longer than ${limits.messageCharacters} characters`
  // The server refuses what PostgreSQL cannot hold.
  if (/[\0\p{Surrogate}]/u.test(text)) return "U+0000 or a lone surrogate"
  return undefined
}

export interface Author {
  /** The author's rank among all authors. */
  index: number
  name: string
  username: string
  messages: number
}
export interface Post {
  index: number
  author: Author
  text: string
}
export interface ChannelPlan {
  name: string
  posts: Post[]
}
export interface ServerPlan {
  name: string
  /** In the order of their first message. */
  authors: Author[]
  channels: ChannelPlan[]
}
export interface Plan {
  servers: ServerPlan[]
  authors: number
  posts: number
  channels: number
  /** Reason → how many. */
  skipped: Map<string, number>
}

/**
 * Who says what where, in the order of the lines. One name in two servers is two people: names are
 * not unique, and nothing says that they are the same. `run` keeps the usernames of two runs on one
 * server apart.
 */
export function plan(lines: Iterable<Line>, run = ""): Plan {
  const servers = new Map<
    string,
    { plan: ServerPlan; authors: Map<string, Author>; channels: Map<string, ChannelPlan> }
  >()
  const skipped = new Map<string, number>()
  let authors = 0
  let posts = 0
  for (const line of lines) {
    const reason = unsendable(line.text)
    if (reason !== undefined) {
      skipped.set(reason, (skipped.get(reason) ?? 0) + 1)
      continue
    }
    const server = entry(servers, line.server, () => {
      const plan: ServerPlan = { name: fitName(line.server, limits.serverName), authors: [], channels: [] }
      return { plan, authors: new Map(), channels: new Map() }
    })
    const author = entry(server.authors, line.author, () => {
      const index = authors++
      const one = { index, name: line.author, username: username(line.author, index, run), messages: 0 }
      server.plan.authors.push(one)
      return one
    })
    const channel = entry(server.channels, line.channel, () => {
      const one: ChannelPlan = { name: fitName(line.channel, limits.channelName), posts: [] }
      server.plan.channels.push(one)
      return one
    })
    author.messages++
    channel.posts.push({ index: posts++, author, text: line.text })
  }
  const plans = [...servers.values()].map(({ plan }) => plan)
  return {
    servers: plans,
    authors,
    posts,
    channels: plans.reduce((sum, { channels }) => sum + channels.length, 0),
    skipped,
  }
}

function entry<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  const known = map.get(key)
  if (known !== undefined) return known
  const made = make()
  map.set(key, made)
  return made
}

/**
 * A display name as a username: what is left of it in ASCII, and its number, which makes it unique.
 */
export function username(name: string, index: number, run = ""): string {
  const slug = name
    .normalize("NFKD")
    .toLowerCase()
    .replace(/\p{M}/gu, "")
    .replace(/[^a-z0-9]+/g, "_")
    .replace(/^_+|_+$/g, "")
  const tail = `_${index + 1}${run && `_${run}`}`
  return `${slug.slice(0, limits.username.max - tail.length) || "user"}${tail}`
}

/** A name cut and padded to what the server takes. */
export function fitName(name: string, { min, max }: { min: number; max: number }): string {
  return Array.from(name.trim()).slice(0, max).join("").trim().padEnd(min, "_")
}

/**
 * Who listens: the most talkative of every server, the servers in turn, so that each is heard by
 * somebody.
 */
export function chooseListeners(
  servers: readonly ServerPlan[],
  count: number,
): { server: ServerPlan; author: Author }[] {
  const queues = servers.map(server => ({
    server,
    authors: server.authors.toSorted((a, b) => b.messages - a.messages),
  }))
  const chosen: { server: ServerPlan; author: Author }[] = []
  for (let round = 0; chosen.length < count; round++) {
    const before = chosen.length
    for (const { server, authors } of queues) {
      const author = authors[round]
      if (author && chosen.length < count) chosen.push({ server, author })
    }
    if (chosen.length === before) break
  }
  return chosen
}

export interface Verdict {
  /** Messages that were sent and never seen. */
  lost: number
  /** Seen a second time. */
  doubled: number
  /** Seen before one that was sent earlier. */
  disordered: number
  /** Seen, and nobody sent it. */
  foreign: number
}

/**
 * Holds what a listener saw of a channel against what was sent to it, both as post indexes in their
 * order.
 */
export function compare(sent: readonly number[], seen: readonly number[]): Verdict {
  const place = new Map(sent.map((index, at) => [index, at]))
  const met = new Set<number>()
  const verdict: Verdict = { lost: 0, doubled: 0, disordered: 0, foreign: 0 }
  let furthest = -1
  for (const index of seen) {
    const at = place.get(index)
    if (at === undefined) verdict.foreign++
    else if (met.has(index)) verdict.doubled++
    else {
      met.add(index)
      if (at < furthest) verdict.disordered++
      furthest = Math.max(furthest, at)
    }
  }
  verdict.lost = sent.length - met.size
  return verdict
}

/** The value below which `share` of the sorted values lie. */
export const quantile = (sorted: readonly number[], share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN
