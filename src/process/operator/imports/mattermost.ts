import { createHash } from "node:crypto"
import { linesOf } from "../../../std/json-items.ts"
import { Refusal } from "../saying.ts"
import { ArchiveProblem, type Archive } from "./archive.ts"
import { emojiNamed } from "./emoji-names.ts"
import { fieldsIn, numberIn, rowsIn, textIn, idIn, idsIn, type Fields } from "./fields.ts"
import { maxItemBytes } from "./reading.ts"
import {
  groupCategory,
  type ForeignChannel,
  type ForeignDirect,
  type ForeignEmoji,
  type ForeignFile,
  type ForeignItem,
  type ForeignMessage,
  type ForeignServer,
  type ForeignUser,
  type Names,
  type Outline,
  type Source,
  type SourceOptions,
} from "./records.ts"
import type { Report } from "./report.ts"
import { hiddenOr } from "./slack.ts"

/** Which kind a line is of: it stands first, so most lines need not be taken apart to be passed over. */
const typeOf = /^\{\s*"type"\s*:\s*"(\w+)"/
const posts = new Set(["post", "direct_post"])
const keyOf = (team: string, channel: string) => `${team}/${channel}`
const digestOf = (text: string) => createHash("sha256").update(text).digest("hex").slice(0, 32)

/** Conversations have no ids but their members. */
function directOf(members: readonly string[]): string {
  const all = [...new Set(members)].toSorted().join(",")
  return `@${all.length > 200 ? digestOf(all) : all}`
}

interface ExportLine {
  readonly type: string
  readonly row: Fields
  /** File and line. */
  readonly at: string
  readonly bytes: number
}

interface PostPlace {
  /** The channel, as the outline has it. */
  readonly channel: string
  readonly team: string | null
  readonly at: string
  readonly bytes: number
}

/** A bulk export of Mattermost: a file of JSON lines, alone or in a zip beside `data/`. */
export function mattermostSource(archive: Archive, options: SourceOptions, report: Report): Source {
  const found = archive.names.filter(name => name.endsWith(".jsonl"))
  const file = found.length === 1 ? found[0]! : archive.names.length === 1 ? archive.names[0]! : undefined
  if (file === undefined)
    throw new Refusal(`a bulk export of Mattermost has one file that ends in .jsonl, and this has ${found.length}`)
  const root = file.slice(0, file.lastIndexOf("/") + 1)
  const known = new Set<string>()

  async function* lines(isWanted: (type: string) => boolean): AsyncGenerator<ExportLine, void> {
    try {
      for await (const { line, text } of linesOf(archive.read(file!), maxItemBytes)) {
        const at = `${file}:${line}`
        if (text === undefined) report.broken(at, `it is longer than ${maxItemBytes} bytes`)
        else if (isWanted(typeOf.exec(text)?.[1] ?? "")) yield* lineOf(text, at)
      }
    } catch (error) {
      if (!(error instanceof ArchiveProblem)) throw error
      report.broken(file!, error.message)
    }
  }

  function* lineOf(text: string, at: string) {
    try {
      const whole = fieldsIn(JSON.parse(text))
      const type = textIn(whole["type"])
      if (type === null) report.broken(at, "a line without a type")
      else yield { type, row: fieldsIn(whole[type]), at, bytes: text.length }
    } catch (error) {
      report.broken(at, (error as Error).message)
    }
  }

  function fileOf(path: string, type = ""): ForeignFile {
    const within = [path, root + path, `${root}data/${path}`].find(name => archive.sizeOf(name) !== undefined)
    return { id: path, name: path.split("/").at(-1)!, type, path: within ?? null, url: null }
  }

  async function outline(): Promise<Outline> {
    const found = await outlineOf(
      lines(type => !posts.has(type)),
      { fileOf, options, report },
    )
    if (!found) throw new Refusal(`${file} is no bulk export of Mattermost: no line says its version`)
    for (const { id } of [...found.channels, ...found.directs]) known.add(id)
    return found
  }

  async function* items(): AsyncGenerator<ForeignItem, void> {
    for await (const { type, row, at, bytes } of lines(type => posts.has(type))) {
      if (type === "post") {
        const team = idIn(row["team"]) ?? ""
        yield* postsOf(row, { channel: keyOf(team, idIn(row["channel"]) ?? ""), team, at, bytes })
      } else yield* postsOf(row, { channel: directOf(idsIn(row["channel_members"])), team: null, at, bytes })
    }
  }

  function* postsOf(row: Fields, place: PostPlace): Generator<ForeignItem, void> {
    if (!known.has(place.channel)) return report.skip("messages of channels that are left out")
    const root = messageOf(row, place, null)
    if (!root) return
    yield { message: root, at: place.at, bytes: place.bytes }
    for (const reply of rowsIn(row["replies"])) {
      const message = messageOf(reply, place, root.id)
      // They are held with the post that they answer.
      if (message) yield { message, at: place.at, bytes: 0 }
    }
  }

  function messageOf(
    row: Fields,
    { channel, team, at }: PostPlace,
    replyTo: string | null,
  ): ForeignMessage | undefined {
    const [user, atMs] = [idIn(row["user"]), numberIn(row["create_at"])]
    const type = textIn(row["type"]) ?? ""
    if (type.startsWith("system_")) report.skip(`system messages (${type})`)
    else if (user === null || atMs === null) report.broken(at, "a post without a user or a time")
    if (type.startsWith("system_") || user === null || atMs === null) return undefined
    const message = typeof row["message"] === "string" ? row["message"] : ""
    const edited = numberIn(row["edit_at"]) ?? 0
    const props = fieldsIn(row["props"])
    const shownAs = textIn(props["override_username"])
    const isHook = props["from_webhook"] === "true" && shownAs !== null
    return {
      // Posts have no ids: Mattermost itself takes those for one that are alike in these.
      id: digestOf(JSON.stringify([channel, replyTo, user, atMs, message])),
      channel,
      author: isHook ? { webhook: shownAs } : { user },
      atMs,
      editedMs: edited > 0 ? edited : null,
      text: names => [mattermostText(message, team, names), ...attached(props)].filter(part => part !== "").join("\n"),
      replyTo,
      isPinned: row["is_pinned"] === true,
      files: rowsIn(row["attachments"]).flatMap(one => {
        const path = textIn(one["path"])
        return path === null ? [] : [fileOf(path)]
      }),
      reactions: reactionsOf(rowsIn(row["reactions"])),
    }
  }

  return { origin: options.origin ?? "mattermost", outline, items }
}

/** Undefined: no line says that it is an export. */
async function outlineOf(
  lines: AsyncIterable<ExportLine>,
  { fileOf, options, report }: { fileOf: (path: string) => ForeignFile; options: SourceOptions; report: Report },
): Promise<Outline | undefined> {
  const servers: ForeignServer[] = []
  const users: ForeignUser[] = []
  const channels: ForeignChannel[] = []
  const privates = new Map<string, string[]>()
  const directs: ForeignDirect[] = []
  const emojis: ForeignEmoji[] = []
  let isBulk = false
  for await (const { type, row } of lines) {
    isBulk ||= type === "version"
    if (type === "team") {
      const [name, shown] = [idIn(row["name"]), textIn(row["display_name"])]
      if (name !== null) servers.push({ id: name, name: shown ?? name, description: textIn(row["description"]) })
    } else if (type === "channel") addChannel(row)
    else if (type === "user") users.push(userOf(row, privates))
    else if (type === "bot") users.push(botOf(row))
    else if (type === "emoji") {
      const [name, image] = [idIn(row["name"]), textIn(row["image"])]
      if (name !== null && image !== null) emojis.push({ id: name, name, isAnimated: false, file: fileOf(image) })
    } else if (type === "direct_channel") addDirect(idsIn(row["members"]))
  }
  return isBulk ? { servers, users, channels, directs, emojis } : undefined

  function addChannel(row: Fields) {
    const [team, name] = [idIn(row["team"]), idIn(row["name"])]
    if (team === null || name === null) return report.skip("channels without a team or a name")
    const isPrivate = row["type"] === "P"
    if (isPrivate && !options.hasPrivate) return report.skip("private channels (--private brings them)", name)
    const id = keyOf(team, name)
    const members: string[] = []
    if (isPrivate) privates.set(id, members)
    const topic = textIn(row["header"]) ?? textIn(row["purpose"])
    const only = hiddenOr(options, id, name, isPrivate ? members : null)
    const isArchived = (numberIn(row["deleted_at"]) ?? 0) > 0
    channels.push({
      id,
      server: team,
      name: textIn(row["display_name"]) ?? name,
      topic,
      category: null,
      createdMs: null,
      only,
      isArchived,
    })
  }

  function addDirect(given: readonly string[]) {
    const members = [...new Set(given)]
    if (!options.hasDirects) return report.skip("direct and group messages (--directs brings them)")
    const id = directOf(members)
    const [one, other] = members
    if (one === undefined) return
    if (members.length <= 2) return directs.push({ id, users: other === undefined ? [one] : [one, other] })
    const home = servers[0]
    if (!home) return
    const name = members.join("-").slice(0, 90)
    channels.push({
      id,
      server: home.id,
      name,
      topic: null,
      category: groupCategory,
      createdMs: null,
      only: members,
      isArchived: false,
    })
  }
}

/** One entry for each emoji, in the order of first use. */
function reactionsOf(rows: readonly Fields[]) {
  const found = new Map<string, { text: string; custom: string; users: string[]; atMs: number | null }>()
  for (const row of rows) {
    const [name, user] = [idIn(row["emoji_name"]), idIn(row["user"])]
    if (name === null || user === null) continue
    const known = found.get(name) ?? {
      text: emojiNamed(name) ?? `:${name}:`,
      custom: name,
      users: [],
      atMs: numberIn(row["create_at"]),
    }
    found.set(name, known)
    known.users.push(user)
  }
  return [...found.values()]
}

function userOf(row: Fields, privates: ReadonlyMap<string, string[]>): ForeignUser {
  const name = idIn(row["username"]) ?? "user"
  const isGone = (numberIn(row["delete_at"]) ?? 0) > 0
  const full = [textIn(row["first_name"]), textIn(row["last_name"])].filter(part => part !== null).join(" ")
  const teams = isGone ? [] : rowsIn(row["teams"])
  const servers = new Map<string, ForeignUser["servers"] extends ReadonlyMap<string, infer R> ? R : never>()
  const owns = new Set<string>()
  for (const team of teams) {
    const id = idIn(team["name"])
    if (id === null) continue
    const isAdmin = (textIn(team["roles"]) ?? "").split(" ").includes("team_admin")
    servers.set(id, isAdmin ? [{ id: "admins", name: "Admins", color: null, position: 1 }] : [])
    if (isAdmin) owns.add(id)
    for (const channel of rowsIn(team["channels"])) privates.get(keyOf(id, idIn(channel["name"]) ?? ""))?.push(name)
  }
  const email = isGone ? null : textIn(row["email"])
  return {
    id: name,
    name,
    shownName: textIn(row["nickname"]) ?? (full === "" ? null : full),
    email,
    isBot: false,
    servers,
    owns,
  }
}

const botOf = (row: Fields): ForeignUser => ({
  id: idIn(row["username"]) ?? "bot",
  name: idIn(row["username"]) ?? "bot",
  shownName: textIn(row["display_name"]),
  email: null,
  isBot: true,
  servers: new Map(),
  owns: new Set(),
})

/** What an integration has attached, as a quote. */
const attached = (props: Fields): string[] =>
  rowsIn(props["attachments"]).flatMap(one => {
    const [title, link, text] = [
      textIn(one["title"]),
      textIn(one["title_link"]),
      textIn(one["text"]) ?? textIn(one["fallback"]),
    ]
    const head = title === null ? null : link === null ? `**${title}**` : `[${title}](${link})`
    const lines = [textIn(one["pretext"]), head, text].filter(line => line !== null)
    return lines.length === 0 ? [] : [lines.join("\n").replace(/^/gm, "> ")]
  })

/** Its Markdown is ours but for what it names. */
export function mattermostText(text: string, team: string | null, names: Names): string {
  return text
    .split(/(```[\s\S]*?```|`[^`\n]+`)/)
    .map((part, i) => (i % 2 === 1 ? part : marked(part, team, names)))
    .join("")
}

const marked = (text: string, team: string | null, names: Names): string =>
  text
    .replace(/(?<![\p{L}\p{N}_/.])@([a-z0-9][a-z0-9._-]*)/giu, (whole, name: string) => {
      if (/^(?:all|channel)$/i.test(name)) return "@everyone"
      // A full stop may be the sentence's.
      for (const one of [name, name.replace(/[._-]+$/, "")]) {
        const user = names.user(one.toLowerCase())
        if (user !== undefined) return `<@${user}>${name.slice(one.length)}`
      }
      return whole
    })
    .replace(/(?<![\p{L}\p{N}_~])~([a-z0-9][a-z0-9_-]*)/gu, (whole, name: string) => {
      const channel = team === null ? undefined : names.channel(keyOf(team, name))
      return channel === undefined ? whole : `<#${channel}>`
    })
    .replace(/(?<![\p{L}\p{N}:]):([a-z0-9_+-]+):/gu, (whole, name: string) => {
      const own = names.emoji(name)
      return own === undefined ? (emojiNamed(name) ?? whole) : `<:${name}:${own}>`
    })
