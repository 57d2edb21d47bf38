import type { Snowflake } from "../../../contract/core/fields.ts"
import { limits } from "../../../contract/core/limits.ts"
import { limits as pinLimits } from "../../../contract/messages/pins.ts"
import { earliestImportedMs } from "../../../domain/core/snowflake.ts"
import { mayHaveThumbnails, type AttachmentState } from "../../../domain/messages/attachments.ts"
import { emojiKey, givenEmoji, tallyOf, type ReactionTally } from "../../../domain/messages/reactions.ts"
import { emojiPath } from "../../../contract/communities/emojis.ts"
import type { Write } from "../../../storage/core/write.ts"
import type { ImportedItem, ImportStep } from "../../../storage/imports.ts"
import { insertFullMessage, insertMessage, updateContent } from "../../../storage/messages/messages.ts"
import { setPinned } from "../../../storage/messages/pins.ts"
import { putReaction } from "../../../storage/messages/reactions.ts"
import { insertThumbnailRequest } from "../../../storage/messages/thumbnails.ts"
import { insertUploadUse } from "../../../storage/messages/uploads.ts"
import { idsFor } from "./ids.ts"
import type { Importing } from "./importing.ts"
import type { ForeignMessage, ForeignReaction } from "./records.ts"
import type { Target } from "./state.ts"
import { fitting, keepable, partsOf } from "./usernames.ts"

/** What one transaction writes, at most about so much. */
const batch = { messages: 500, bytes: 4 * 1_048_576, files: 25 }
/** Of one emoji of a message. */
const maxReactors = 10_000

/** A message, or a part of one that is too long or has too many files. */
interface Part {
  readonly foreign: string
  readonly of: ForeignMessage
  readonly target: Target
  readonly author: Author
  readonly content: string | null
  readonly attachments: readonly AttachmentState[]
  readonly isFirst: boolean
}
interface Author {
  readonly id: Snowflake
  /** Of what is no account. */
  readonly name: string | null
}

/** Messages that wait for their transaction. */
export class MessageWriter {
  readonly #importing: Importing
  #waiting: { message: ForeignMessage; at: string }[] = []
  #bytes = 0
  #files = 0

  constructor(importing: Importing) {
    this.#importing = importing
  }

  async add({ message, at, bytes }: { message: ForeignMessage; at: string; bytes: number }): Promise<void> {
    this.#waiting.push({ message, at })
    this.#bytes += bytes
    this.#files += message.files.length
    if (this.#waiting.length >= batch.messages || this.#bytes >= batch.bytes || this.#files >= batch.files)
      await this.flush()
  }

  async flush(): Promise<void> {
    const waiting = this.#waiting
    this.#waiting = []
    this.#bytes = this.#files = 0
    if (waiting.length > 0) await writeMessages(this.#importing, waiting)
  }
}

async function writeMessages(
  importing: Importing,
  given: readonly { message: ForeignMessage; at: string }[],
): Promise<void> {
  const { state, report } = importing
  const asked = given.flatMap(({ message: { id, replyTo } }) => (replyTo === null ? [id] : [id, replyTo]))
  const known = await importing.step(step => step.messages(importing.id, asked))
  // In an export that was cut and put together the same message may stand twice.
  const fresh = new Map<string, { message: ForeignMessage; at: string }>()
  for (const one of given) if (!known.has(one.message.id) && !fresh.has(one.message.id)) fresh.set(one.message.id, one)
  report.count("messages that were there already", given.filter(({ message: { id } }) => known.has(id)).length)
  await addHooks(
    importing,
    [...fresh.values()].map(({ message }) => hookOf(importing, message)).filter(name => name !== null),
  )
  const parts: Part[] = []
  for (const { message, at } of fresh.values()) {
    const target = state.channels.get(message.channel)
    const author = authorOf(importing, message)
    if (!target) report.skip("messages of channels that are left out")
    else if (!author) report.skip("messages whose author is not known", at)
    else parts.push(...(await partsOfMessage(importing, { message, at, target, author })))
  }
  if (parts.length === 0) return
  await importing.step(async step => {
    const now = importing.nowS() * 1000
    for (const { of } of parts)
      if (of.atMs < earliestImportedMs || of.atMs > now)
        report.skip("messages whose time cannot be: it was moved", of.id)
    const ids = await idsFor(
      step,
      importing.id,
      parts.map(({ of: { atMs }, target: { shard } }) => ({ shard, atMs: Math.min(atMs, now) })),
    )
    await writeParts(importing, step, { parts, ids, known })
  })
  report.count("messages", parts.filter(({ isFirst }) => isFirst).length)
  report.count("further parts of messages that are too long", parts.filter(({ isFirst }) => !isFirst).length)
}

async function writeParts(
  importing: Importing,
  step: ImportStep,
  { parts, ids, known }: { parts: readonly Part[]; ids: readonly Snowflake[]; known: Map<string, Snowflake> },
): Promise<void> {
  const { report } = importing
  const own = new Map([...known, ...parts.map(({ foreign }, i) => [foreign, ids[i]!] as const)])
  const writes: Write[] = []
  for (const [i, part] of parts.entries()) {
    const id = ids[i]!
    const { target, author, content, attachments, of, isFirst } = part
    const replyTo = isFirst && of.replyTo !== null ? (own.get(of.replyTo) ?? null) : null
    if (isFirst && of.replyTo !== null && replyTo === null) report.skip("replies to messages that are not there")
    const row = {
      channel_id: target.id,
      id,
      server_id: target.server,
      author_id: author.id,
      content,
      reply_to_id: replyTo,
      nonce: null,
    }
    if (author.name === null && attachments.length === 0) writes.push(insertMessage(row))
    else
      writes.push(
        insertFullMessage({
          ...row,
          webhook_id: author.name === null ? null : author.id,
          webhook_name: author.name,
          webhook_avatar_url: null,
          embeds: null,
          attachments: attachments.length === 0 ? null : attachments,
          poll: null,
        }),
      )
    const place = { channel_id: target.id, message_id: id }
    for (const { file } of attachments) writes.push(insertUploadUse({ file, ...place }))
    if (attachments.some(mayHaveThumbnails)) writes.push(insertThumbnailRequest({ ...place, since: importing.nowS() }))
    if (!isFirst) continue
    if (of.editedMs !== null && content !== null)
      writes.push(
        updateContent({ channel_id: target.id, id, content, edited_at: secondsOfMoment(of.editedMs, importing) }),
      )
    if (of.isPinned) writes.push(...pinOf(importing, target, id, of))
    writes.push(...reactionsOf(importing, of, place))
  }
  await step.write(writes)
  await step.note(
    importing.id,
    parts.map(({ foreign }, i): ImportedItem => ({ kind: "message", foreign_id: foreign, own_id: ids[i]! })),
  )
  await step.listForSearch(parts.map(({ target }, i) => ({ channel_id: target.id, id: ids[i]! })))
}

/** A bot of the export is no account here: its messages bear its name. */
function hookOf({ state }: Importing, { author }: ForeignMessage): string | null {
  const name = "webhook" in author ? author.webhook : state.bots.get(author.user)
  return name === undefined ? null : fitting(name, limits.webhookUsername) || "Bot"
}

function authorOf(importing: Importing, message: ForeignMessage): Author | undefined {
  const { state } = importing
  const name = hookOf(importing, message)
  if (name !== null) return { id: state.hooks.get(name)!, name }
  const id = "user" in message.author ? state.users.get(message.author.user) : undefined
  return id === undefined ? undefined : { id, name: null }
}

async function addHooks(importing: Importing, names: readonly string[]): Promise<void> {
  const { state, ids } = importing
  const fresh = [...new Set(names)].filter(name => !state.hooks.has(name))
  if (fresh.length === 0) return
  await importing.step(async step => {
    const [shard] = await step.shards(1)
    const items = fresh.map((name): ImportedItem => ({ kind: "webhook", foreign_id: name, own_id: ids.next(shard!) }))
    await step.note(importing.id, items)
    state.learn(items)
  })
}

/** Files are kept before the transaction: one that is interrupted leaves them to the sweep. */
async function partsOfMessage(
  { state, files, ids, report }: Importing,
  { message, at, target, author }: { message: ForeignMessage; at: string; target: Target; author: Author },
): Promise<Part[]> {
  const attachments: AttachmentState[] = []
  const missing: string[] = []
  for (const file of message.files) {
    const kept = await files.upload(file, author.id)
    if (kept) attachments.push({ id: ids.next(target.shard), ...kept })
    else missing.push(`*[${file.name.replaceAll(/[*[\]\n]/g, " ").slice(0, 200)}: not imported]*`)
  }
  const text = keepable([message.text(state.names), ...missing].filter(part => part !== "").join("\n"))
  const texts = text.trim() === "" ? [] : partsOf(text, limits.messageCharacters)
  const most = limits.attachmentsPerMessage
  const count = Math.max(texts.length, Math.ceil(attachments.length / most))
  if (count === 0) report.skip("messages with nothing in them", at)
  if (count > 1) report.skip("messages in several parts, as they are too long", at)
  return Array.from({ length: count }, (_, i) => ({
    foreign: i === 0 ? message.id : `${message.id}#${i + 1}`,
    of: message,
    target,
    author,
    content: texts[i] ?? null,
    attachments: attachments.slice(i * most, (i + 1) * most),
    isFirst: i === 0,
  }))
}

/** Unix seconds, and no time that cannot be. */
const secondsOfMoment = (ms: number, { nowS }: Importing): number =>
  Math.max(0, Math.min(Math.floor(ms / 1000), nowS()))

function pinOf(importing: Importing, target: Target, id: Snowflake, { atMs }: ForeignMessage): Write[] {
  const { report } = importing
  if (target.pins >= pinLimits.pinsPerChannel) {
    report.skip(`pins above the ${pinLimits.pinsPerChannel} that a channel has`)
    return []
  }
  target.pins++
  report.count("pins")
  return [setPinned({ channel_id: target.id, id, pinned_at: secondsOfMoment(atMs, importing) * 1000 })]
}

function reactionsOf(
  importing: Importing,
  { reactions, atMs }: ForeignMessage,
  place: { channel_id: Snowflake; message_id: Snowflake },
): Write[] {
  const { report } = importing
  const tallies: ReactionTally[] = []
  const given: { emoji: string; user_id: Snowflake; reacted_at: number }[] = []
  for (const reaction of reactions) {
    const found = reactionOf(importing, reaction)
    if (!found) continue
    const { emoji, users } = found
    if (tallyOf(tallies, emojiKey(emoji))) continue
    if (tallies.length >= limits.reactionsPerMessage) {
      report.skip(`reactions above the ${limits.reactionsPerMessage} that a message has`)
      continue
    }
    const url = emoji.id === null ? null : emojiPath(emoji.id)
    tallies.push({ emoji: emoji.text, count: users.length, custom_emoji_id: emoji.id, url })
    const reacted_at = secondsOfMoment(reaction.atMs ?? atMs, importing)
    for (const user_id of users) given.push({ emoji: emojiKey(emoji), user_id, reacted_at })
  }
  report.count("reactions", given.length)
  return given.map(one => putReaction({ ...place, ...one, reactions: tallies }))
}

function reactionOf({ state, report }: Importing, { text, custom, users }: ForeignReaction) {
  const own = custom === null ? undefined : state.emojis.get(custom)
  const emoji = givenEmoji(own === undefined ? text : `<:${custom!.slice(0, 32)}:${own}>`) ?? givenEmoji(":emoji:")!
  const there = [...new Set(users.flatMap(user => state.users.get(user) ?? []))].slice(0, maxReactors)
  report.skip("reactions of people who are in no list, or of bots", undefined, users.length - there.length)
  return there.length === 0 ? undefined : { emoji, users: there }
}
