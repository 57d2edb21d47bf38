import { append } from "../../../std/multi-map.ts"
import { ArchiveProblem, type Archive } from "./archive.ts"
import { emojiNamed } from "./emoji-names.ts"
import { fieldsIn, isFields, numberIn, rowsIn, textIn, idIn, idsIn, type Fields } from "./fields.ts"
import { itemsOf, type ItemAt } from "./reading.ts"
import {
  groupCategory,
  type ForeignChannel,
  type ForeignDirect,
  type ForeignFile,
  type ForeignItem,
  type ForeignMessage,
  type ForeignRole,
  type ForeignUser,
  type Names,
  type Outline,
  type Source,
  type SourceOptions,
} from "./records.ts"
import type { Report } from "./report.ts"
import { slackText } from "./slack-markup.ts"
import { Refusal } from "../saying.ts"

/** A conversation, and the folder of its days. */
interface Place {
  readonly id: string
  readonly folder: string
  readonly pins: ReadonlySet<string>
}

/** A workspace export of Slack: lists of users and channels, and a folder of days for each channel. */
export function slackSource(archive: Archive, options: SourceOptions, report: Report): Source {
  const root = rootOf(archive)
  const server = options.origin ?? "slack"
  const places: Place[] = []
  /** Files that tools lay beside the messages, by Slack's id. */
  const uploads = new Map<string, string>()
  for (const name of archive.names) {
    const [, id] = /(?:^|\/)__uploads\/(F[A-Z0-9]+)\/[^/]+$/.exec(name) ?? []
    if (id !== undefined) uploads.set(id, name)
  }
  const rows = (name: string) => listed(archive, root + name, report)

  async function outline(): Promise<Outline> {
    const people = [...(await rows("users.json")), ...(await rows("org_users.json"))]
    const users = new Map(people.map(row => [idIn(row["id"])!, userOf(row, server)]))
    users.delete(null!)
    const channels: ForeignChannel[] = []
    const directs: ForeignDirect[] = []
    const add = (row: Fields, folder: string | null, only: readonly string[] | null, category: string | null) => {
      const id = idIn(row["id"])
      if (id === null || folder === null) return report.skip("channels without an id or a name")
      const name = category === null ? folder : groupName(idsIn(row["members"]), users)
      channels.push(channelOf(row, { id, server, name, category, only: hiddenOr(options, id, folder, only) }))
      places.push({ id, folder, pins: pinsOf(row) })
    }
    for (const row of await rows("channels.json")) add(row, idIn(row["name"]), null, null)
    const groups = await rows("groups.json")
    const mpims = await rows("mpims.json")
    const dms = await rows("dms.json")
    if (options.hasPrivate) for (const row of groups) add(row, idIn(row["name"]), idsIn(row["members"]), null)
    else report.skip("private channels (--private brings them)", undefined, groups.length)
    if (options.hasDirects) {
      for (const row of mpims) add(row, idIn(row["name"]), idsIn(row["members"]), groupCategory)
      for (const row of dms) {
        const [id, [one, other]] = [idIn(row["id"]), idsIn(row["members"])]
        if (id === null || one === undefined) continue
        directs.push({ id, users: other === undefined || other === one ? [one] : [one, other] })
        places.push({ id, folder: id, pins: pinsOf(row) })
      }
    } else report.skip("direct and group messages (--directs brings them)", undefined, dms.length + mpims.length)
    if (channels.length === 0 && users.size === 0)
      throw new Refusal("this is no export of Slack: there is no channels.json and no users.json")
    const name = options.name ?? "Slack"
    return {
      servers: [{ id: server, name, description: null }],
      users: [...users.values()],
      channels,
      directs,
      emojis: [],
    }
  }

  async function* items(): AsyncGenerator<ForeignItem, void> {
    const days = new Map<string, string[]>()
    for (const name of archive.names)
      if (name.startsWith(root) && name.endsWith(".json"))
        append(days, name.slice(root.length, name.lastIndexOf("/")), name)
    const known = new Set<string>()
    for (const place of places)
      for (const day of (days.get(place.folder) ?? []).toSorted())
        for await (const found of itemsOf(archive, day, report)) {
          if (!isFields(found.value)) report.broken(found.at, "it is no message")
          else yield* itemOf(found as ItemAt & { value: Fields }, place, known)
        }
  }

  function* itemOf({ value: row, at, bytes }: ItemAt & { value: Fields }, place: Place, known: Set<string>) {
    const [ts, subtype] = [idIn(row["ts"]), textIn(row["subtype"])]
    const ms = ts === null ? null : numberIn(ts)
    if (ts === null || ms === null) return report.broken(at, "a message without a time")
    if (subtype !== null && !said.has(subtype)) return report.skip(`system messages (${subtype})`)
    const [author, profile] = [idIn(row["user"]), fieldsIn(row["user_profile"])]
    if (author !== null && !known.has(author) && textIn(profile["name"]) !== null) {
      known.add(author)
      // Somebody of another workspace is in no list; those who are listed stay as they are there.
      yield { user: strangerOf(author, profile) }
    }
    yield { message: messageOf(row, { ts, ms: ms * 1000, author, place }), at, bytes }
  }

  function messageOf(
    row: Fields,
    { ts, ms, author, place }: { ts: string; ms: number; author: string | null; place: Place },
  ): ForeignMessage {
    const thread = idIn(row["thread_ts"])
    const edited = numberIn(fieldsIn(row["edited"])["ts"])
    const shownAs = textIn(row["username"]) ?? textIn(fieldsIn(row["bot_profile"])["name"])
    const isHook =
      author === null || row["subtype"] === "bot_message" || (textIn(row["bot_id"]) !== null && shownAs !== null)
    const isPinned = place.pins.has(ts) || idsIn(row["pinned_to"]).includes(place.id)
    return {
      id: `${place.id}:${ts}`,
      channel: place.id,
      author: isHook ? { webhook: shownAs ?? "Bot" } : { user: author },
      atMs: ms,
      editedMs: edited === null ? null : edited * 1000,
      text: names => textOf(row, names),
      replyTo: thread !== null && thread !== ts ? `${place.id}:${thread}` : null,
      isPinned,
      files: rowsIn(row["files"]).flatMap(file => fileOf(file, uploads, report)),
      reactions: rowsIn(row["reactions"]).map(({ name, users }) => ({
        text: emojiNamed(textIn(name) ?? "") ?? `:${(textIn(name) ?? "?").split("::")[0]}:`,
        custom: null,
        users: idsIn(users),
        atMs: null,
      })),
    }
  }

  return { origin: server, outline, items }
}

/** Kinds of messages that somebody said. The others tell what happened in a channel. */
const said = new Set(["bot_message", "me_message", "thread_broadcast", "file_share", "file_comment", "reply_broadcast"])

/** The folder in which everything is: people often pack the folder that they unpacked. */
function rootOf(archive: Archive): string {
  const list = archive.names.find(name => /(?:^|\/)(?:channels|users|groups|dms)\.json$/.test(name))
  return list === undefined ? "" : list.slice(0, list.lastIndexOf("/") + 1)
}

async function listed(archive: Archive, name: string, report: Report): Promise<Fields[]> {
  if (archive.sizeOf(name) === undefined) return []
  const found: Fields[] = []
  try {
    for await (const { value, at } of itemsOf(archive, name, report))
      if (isFields(value)) found.push(value)
      else report.broken(at, "it is no object")
  } catch (error) {
    if (!(error instanceof ArchiveProblem)) throw error
    throw new Refusal(error.message)
  }
  return found
}

const rolesOf = (row: Fields): ForeignRole[] => {
  const role = (id: string, name: string, position: number) => ({ id, name, color: null, position })
  if (row["is_owner"] === true) return [role("owners", "Owners", 2)]
  return row["is_admin"] === true ? [role("admins", "Admins", 1)] : []
}

function userOf(row: Fields, server: string): ForeignUser {
  const profile = fieldsIn(row["profile"])
  const [id, name] = [idIn(row["id"])!, idIn(row["name"])]
  const isGone = row["deleted"] === true
  return {
    id,
    name: name ?? id,
    shownName: textIn(profile["display_name"]) ?? textIn(profile["real_name"]) ?? textIn(row["real_name"]),
    email: isGone ? null : textIn(profile["email"]),
    isBot: row["is_bot"] === true || id === "USLACKBOT",
    servers: new Map(isGone ? [] : [[server, rolesOf(row)]]),
    owns: new Set(row["is_primary_owner"] === true && !isGone ? [server] : []),
  }
}

const strangerOf = (id: string, profile: Fields): ForeignUser => ({
  id,
  name: textIn(profile["name"])!,
  shownName: textIn(profile["display_name"]) ?? textIn(profile["real_name"]),
  email: null,
  isBot: false,
  servers: new Map(),
  owns: new Set(),
})

const pinsOf = (row: Fields): Set<string> => new Set(rowsIn(row["pins"]).flatMap(({ id }) => idIn(id) ?? []))

function channelOf(
  row: Fields,
  known: Pick<ForeignChannel, "id" | "server" | "name" | "category" | "only">,
): ForeignChannel {
  const created = numberIn(row["created"])
  const topic = textIn(fieldsIn(row["topic"])["value"]) ?? textIn(fieldsIn(row["purpose"])["value"])
  return {
    ...known,
    topic,
    createdMs: created === null ? null : created * 1000,
    isArchived: row["is_archived"] === true,
  }
}

/** `hidden`: for nobody but the owner and administrators. */
export const hiddenOr = (
  { hidden }: Pick<SourceOptions, "hidden">,
  id: string,
  name: string,
  only: readonly string[] | null,
): readonly string[] | null => (hidden.has(id) || hidden.has(name) ? [] : only)

const groupName = (members: readonly string[], users: ReadonlyMap<string, ForeignUser>): string =>
  members
    .map(id => users.get(id)?.name ?? id)
    .join("-")
    .slice(0, 90) || "group"

function fileOf(file: Fields, uploads: ReadonlyMap<string, string>, report: Report): ForeignFile[] {
  const [id, mode] = [idIn(file["id"]), textIn(file["mode"])]
  if (id === null || mode === "tombstone" || mode === "hidden_by_limit") {
    report.skip("files that Slack itself has no longer")
    return []
  }
  const name = textIn(file["name"]) ?? textIn(file["title"]) ?? id
  const url = textIn(file["url_private_download"]) ?? textIn(file["url_private"])
  return [{ id, name, type: textIn(file["mimetype"]) ?? "", path: uploads.get(id) ?? null, url }]
}

/** What the message says, and what an app has attached to it. */
function textOf(row: Fields, names: Names): string {
  const text = slackText(textIn(row["text"]) ?? "", names)
  const own = row["subtype"] === "me_message" && text !== "" ? `*${text}*` : text
  const attached = rowsIn(row["attachments"]).flatMap(one => {
    const title = textIn(one["title"])
    const link = textIn(one["title_link"])
    const body = textIn(one["text"]) ?? (title === null ? textIn(one["fallback"]) : null)
    const lines = [
      textIn(one["pretext"]),
      title === null ? null : link === null ? `*${title}*` : `<${link}|${title}>`,
      body,
    ].filter(line => line !== null)
    return lines.length === 0 ? [] : [slackText(lines.join("\n"), names).replace(/^/gm, "> ")]
  })
  return [own, ...attached].filter(part => part !== "").join("\n")
}
