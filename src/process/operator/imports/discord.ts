import { limits } from "../../../contract/core/limits.ts"
import { Refusal } from "../saying.ts"
import type { Archive } from "./archive.ts"
import { fieldsIn, isFields, momentIn, numberIn, rowsIn, textIn, idIn, type Fields } from "./fields.ts"
import { itemsOf } from "./reading.ts"
import type {
  ForeignChannel,
  ForeignEmoji,
  ForeignFile,
  ForeignItem,
  ForeignMessage,
  ForeignServer,
  ForeignUser,
  Names,
  Outline,
  Source,
  SourceOptions,
} from "./records.ts"
import type { Report } from "./report.ts"
import { hiddenOr } from "./slack.ts"

/** A file of one channel, or of a part of it. */
interface ChannelFile {
  readonly name: string
  readonly guild: string
  readonly id: string
  /** Of a thread the channel that its messages go to. */
  readonly channel: string
  readonly thread: string | null
  readonly part: number
}

/** What is said in a thread, until it is known which message the others answer. */
interface Thread {
  readonly name: string
  readonly start: string
  first: string | undefined
}

/** Kinds of messages that somebody said. */
const said = new Set(["Default", "Reply", "ChatInputCommand", "ContextMenuCommand", "20", "23"])

/** Files of DiscordChatExporter in JSON: one for each channel, and folders of media beside them. */
export function discordSource(archive: Archive, options: SourceOptions, report: Report): Source {
  const files: ChannelFile[] = []
  const [seenUsers, seenEmojis] = [new Set<string>(), new Set<string>()]

  async function outline(): Promise<Outline> {
    const servers = new Map<string, ForeignServer>()
    const channels = new Map<string, ForeignChannel>()
    const threads: { file: Omit<ChannelFile, "channel">; row: Fields }[] = []
    const add = (guild: string, id: string, name: string, category: string | null, topic: string | null) =>
      channels.set(id, {
        id,
        server: guild,
        name,
        topic,
        category,
        createdMs: null,
        only: hiddenOr(options, id, name, null),
        isArchived: false,
      })
    for (const name of archive.names.filter(name => name.toLowerCase().endsWith(".json"))) {
      const head = await headOf(name)
      const [guild, row] = [fieldsIn(head["guild"]), fieldsIn(head["channel"])]
      const [guildId, id] = [idIn(guild["id"]), idIn(row["id"])]
      if (guildId === null || id === null) {
        report.skip("files that are no channel", name)
        continue
      }
      const type = textIn(row["type"]) ?? ""
      if (guildId === "0" || type.startsWith("Direct")) {
        report.skip("direct messages: these files do not say whose they are", name)
        continue
      }
      servers.set(guildId, { id: guildId, name: options.name ?? textIn(guild["name"]) ?? "Discord", description: null })
      const part = Number(/\[part (\d+)\]/.exec(name)?.[1] ?? 1)
      const file = { name, guild: guildId, id, thread: null, part }
      if (type.endsWith("Thread")) threads.push({ file: { ...file, thread: textIn(row["name"]) ?? id }, row })
      else {
        files.push({ ...file, channel: id })
        add(guildId, id, textIn(row["name"]) ?? id, textIn(row["category"]), textIn(row["topic"]))
      }
    }
    for (const { file, row } of threads) {
      const parent = idIn(row["categoryId"]) ?? file.id
      // A forum has no messages of its own, and so no file.
      if (!channels.has(parent)) add(file.guild, parent, textIn(row["category"]) ?? file.thread!, null, null)
      files.push({ ...file, channel: parent })
    }
    if (servers.size === 0) throw new Refusal("there is no file of DiscordChatExporter in JSON in it")
    return { servers: [...servers.values()], users: [], channels: [...channels.values()], directs: [], emojis: [] }
  }

  /** What stands before the messages. */
  async function headOf(name: string): Promise<Fields> {
    const head: Record<string, unknown> = {}
    for await (const { key, value } of itemsOf(archive, name, report, ["messages"])) {
      if (key === null || key === "messages") break
      head[key] = value
    }
    return head
  }

  async function* items(): AsyncGenerator<ForeignItem, void> {
    const threads = new Map<string, Thread>()
    const inOrder = files.toSorted((a, b) => Number(a.thread !== null) - Number(b.thread !== null) || a.part - b.part)
    for (const file of inOrder) {
      const folder = file.name.slice(0, file.name.lastIndexOf("/") + 1)
      const fileAt = (path: string | null, id: string, name: string) => fileOf(archive, { path, folder, id, name })
      if (file.thread !== null && !threads.has(file.id))
        threads.set(file.id, { name: file.thread, start: file.id, first: undefined })
      for await (const { key, value, at, bytes } of itemsOf(archive, file.name, report, ["messages"])) {
        if (key !== "messages") continue
        if (!isFields(value)) report.broken(at, "it is no message")
        else yield* itemsIn(value, { at, bytes, file, thread: threads.get(file.id), fileAt })
      }
    }
  }

  function* itemsIn(row: Fields, place: MessagePlace): Generator<ForeignItem, void> {
    const [id, atMs, type] = [idIn(row["id"]), momentIn(row["timestamp"]), textIn(row["type"]) ?? "Default"]
    if (id === null || atMs === null) return report.broken(place.at, "a message without an id or a time")
    if (!said.has(type)) return report.skip(`system messages (${type})`)
    const people = [
      fieldsIn(row["author"]),
      ...rowsIn(row["mentions"]),
      ...rowsIn(row["reactions"]).flatMap(({ users }) => rowsIn(users)),
    ]
    for (const person of people) {
      const user = userOf(person, place.file.guild)
      if (!user || seenUsers.has(user.id)) continue
      seenUsers.add(user.id)
      yield { user }
    }
    for (const emoji of [
      ...rowsIn(row["inlineEmojis"]),
      ...rowsIn(row["reactions"]).map(({ emoji }) => fieldsIn(emoji)),
    ]) {
      const own = emojiOf(emoji, place)
      if (!own || seenEmojis.has(own.id)) continue
      seenEmojis.add(own.id)
      yield { emoji: own, server: place.file.guild }
    }
    yield { message: messageOf(row, { id, atMs, place }), at: place.at, bytes: place.bytes }
  }

  return { origin: options.origin ?? "discord", outline, items }
}

interface MessagePlace {
  readonly at: string
  readonly bytes: number
  readonly file: ChannelFile
  readonly thread: Thread | undefined
  fileAt(path: string | null, id: string, name: string): ForeignFile
}

function messageOf(
  row: Fields,
  { id, atMs, place }: { id: string; atMs: number; place: MessagePlace },
): ForeignMessage {
  const { file, thread, fileAt } = place
  const author = fieldsIn(row["author"])
  const answered = idIn(fieldsIn(row["reference"])["messageId"])
  let mark = ""
  let replyTo = row["type"] === "Reply" ? answered : null
  if (thread) {
    // A thread bears the id of the message that it was begun from.
    if (thread.first === undefined) mark = `**${thread.name}**\n`
    replyTo ??= thread.first ?? thread.start
    thread.first ??= id
  }
  const isHook = author["isBot"] === true
  return {
    id,
    channel: file.channel,
    author: isHook ? { webhook: shownNameOf(author) ?? "Bot" } : { user: idIn(author["id"]) ?? "0" },
    atMs,
    editedMs: momentIn(row["timestampEdited"]),
    text: names => mark + textOf(row, names, isHook),
    replyTo,
    isPinned: row["isPinned"] === true,
    files: rowsIn(row["attachments"]).map(one => {
      const url = textIn(one["url"])
      return fileAt(url, idIn(one["id"]) ?? url ?? "", textIn(one["fileName"]) ?? "file")
    }),
    reactions: rowsIn(row["reactions"]).map(reaction => {
      const emoji = fieldsIn(reaction["emoji"])
      const custom = idIn(emoji["id"])
      const name = idIn(emoji["name"]) ?? "?"
      return {
        text: custom === null ? name : `:${name}:`,
        custom: custom === null ? null : name,
        users: rowsIn(reaction["users"]).flatMap(user => idIn(user["id"]) ?? []),
        atMs: null,
      }
    }),
  }
}

const shownNameOf = (row: Fields) => textIn(row["nickname"]) ?? textIn(row["name"])

function userOf(row: Fields, guild: string): ForeignUser | undefined {
  const [id, name] = [idIn(row["id"]), textIn(row["name"])]
  if (id === null || name === null || row["isBot"] === true) return undefined
  const roles = rowsIn(row["roles"]).flatMap(role => {
    const [role_id, role_name] = [idIn(role["id"]), textIn(role["name"])]
    if (role_id === null || role_name === null) return []
    return [{ id: role_id, name: role_name, color: textIn(role["color"]), position: numberIn(role["position"]) ?? 1 }]
  })
  const servers = new Map([[guild, roles]])
  return { id, name, shownName: textIn(row["nickname"]), email: null, isBot: false, servers, owns: new Set() }
}

function emojiOf(row: Fields, { fileAt }: MessagePlace): ForeignEmoji | undefined {
  const [id, name, url] = [idIn(row["id"]), textIn(row["name"]), textIn(row["imageUrl"])]
  if (id === null || name === null || url === null) return undefined
  return { id: name, name, isAnimated: row["isAnimated"] === true, file: fileAt(url, id, name) }
}

/** `path`: an address, or where it is beside the file that names it. */
function fileOf(
  archive: Archive,
  { path, folder, id, name }: { path: string | null; folder: string; id: string; name: string },
): ForeignFile {
  if (path === null || /^https?:/i.test(path)) return { id, name, type: "", path: null, url: path }
  const plain = path.replaceAll("\\", "/").replace(/^\.\//, "")
  let decoded = plain
  try {
    decoded = decodeURIComponent(plain)
  } catch {
    // A name with a percent sign of its own.
  }
  const found = [folder + plain, folder + decoded, plain, decoded].find(one => archive.sizeOf(one) !== undefined)
  return { id, name, type: "", path: found ?? null, url: null }
}

function textOf(row: Fields, names: Names, isHook: boolean): string {
  const content = typeof row["content"] === "string" ? row["content"] : ""
  const parts = [discordText(content, rowsIn(row["mentions"]), names)]
  for (const sticker of rowsIn(row["stickers"])) parts.push(`*[${textIn(sticker["name"]) ?? "sticker"}]*`)
  // Of people, embeds only show what a link leads to.
  if (isHook)
    for (const embed of rowsIn(row["embeds"])) {
      const [title, url, body] = [textIn(embed["title"]), textIn(embed["url"]), textIn(embed["description"])]
      const head = title === null ? null : url === null ? `**${title}**` : `[${title.replace(/[[\]]/g, "")}](${url})`
      const fields = rowsIn(embed["fields"]).map(
        one => `**${textIn(one["name"]) ?? ""}** ${textIn(one["value"]) ?? ""}`,
      )
      const lines = [head, body, ...fields].filter(line => line !== null)
      if (lines.length > 0) parts.push(lines.join("\n").replace(/^/gm, "> "))
    }
  return parts.filter(part => part !== "").join("\n")
}

/** Discord's Markdown is ours. The exporter may have written names in the place of ids. */
export function discordText(text: string, mentioned: readonly Fields[], names: Names): string {
  return text
    .split(/(```[\s\S]*?```|`[^`\n]+`)/)
    .map((part, i) => (i % 2 === 1 ? part : marked(part, mentioned, names)))
    .join("")
}

function marked(text: string, mentioned: readonly Fields[], names: Names): string {
  let made = text
    .replace(/<@!?(\d+)>/g, (whole, id: string) => shownAs(names.user(id), own => `<@${own}>`, whole))
    .replace(/<@&(\d+)>/g, (_, id: string) => shownAs(names.role(id), own => `<@&${own}>`, "@role"))
    .replace(/<#(\d+)>/g, (_, id: string) => shownAs(names.channel(id), own => `<#${own}>`, "#channel"))
    .replace(
      /<(a?):(\w+):(\d+)>|:(\w+):/g,
      (whole, a: string | undefined, name: string | undefined, _: string, plain?: string) => {
        const said = name ?? plain!
        return shownAs(
          names.emoji(said),
          own => `<${a ?? ""}:${said}:${own}>`,
          name === undefined ? whole : `:${said}:`,
        )
      },
    )
    .replace(/<t:(-?\d{1,12})(?::\w)?>/g, (whole, seconds: string) => dateOf(Number(seconds)) ?? whole)
  // The longest name first: one may begin as another does.
  const people = mentioned
    .slice(0, limits.mentionsPerMessage)
    .flatMap(row => [textIn(row["nickname"]), textIn(row["name"])].map(name => ({ name, id: idIn(row["id"]) })))
    .filter(({ name, id }) => name !== null && id !== null)
    .toSorted((a, b) => b.name!.length - a.name!.length)
  for (const { name, id } of people) {
    const own = names.user(id!)
    if (own !== undefined) made = made.replaceAll(`@${name!}`, `<@${own}>`)
  }
  return made
}

const shownAs = (own: string | undefined, made: (own: string) => string, otherwise: string): string =>
  own === undefined ? otherwise : made(own)

function dateOf(seconds: number): string | undefined {
  const date = new Date(seconds * 1000)
  return Number.isNaN(date.getTime()) ? undefined : `${date.toISOString().slice(0, 16).replace("T", " ")} UTC`
}
