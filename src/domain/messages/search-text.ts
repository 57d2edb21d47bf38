import type { Snowflake } from "../../contract/core/fields.ts"
import { stretchesOf } from "./search-stretches.ts"
import { flagsOf, type FlagFields, type MessageState } from "./messages.ts"
import { append } from "../../std/multi-map.ts"

/**
 * What a search compares: texts and queries go through the same functions, here, whatever the
 * database's collation knows of letters. A message becomes words with places, and facts (who wrote
 * it, where, what it has), all of them lexemes of one `tsvector`.
 */

/**
 * Combining signs that people leave out: accents, Hebrew points, Arabic vowel signs. Those of Indic
 * and Thai are letters.
 */
const accents = /[\u0300-\u036f\u0591-\u05bd\u05bf-\u05c7\u064b-\u065f\u0670]/g
const lettersWithout: Readonly<Record<string, string>> = { ø: "o", ł: "l", đ: "d", æ: "ae", œ: "oe", ð: "d", þ: "th" }

/**
 * A text of ASCII, as most are, has one form, no marks and no run without blanks: what is done with
 * it is a small part of what others need, with the same outcome.
 */
const isAscii = (text: string): boolean => !/[^\0-\x7f]/.test(text)

/** Up and down again: so `ß` and `SS`, `ς` and `σ`, `ſ` and `s`, `ı` and `I` are the same. */
const caseless = (text: string): string => text.toUpperCase().toLowerCase().replaceAll("ς", "σ")

/** A text for substrings, without the case of its letters, accents kept. */
export const foldedText = (text: string): string =>
  isAscii(text) ? text.toLowerCase() : caseless(text.normalize("NFC")).replaceAll("i\u0307", "i")

const foldedWord = (text: string): string =>
  caseless(text.normalize("NFKD").replace(accents, ""))
    .normalize("NFKC")
    .replace(/[øłđæœðþ]/g, letter => lettersWithout[letter]!)

const words = /\p{Extended_Pictographic}|[\p{L}\p{N}][\p{L}\p{N}\p{M}]*/gu
/**
 * Scripts whose words stand without blanks, or grow endings without a border: they are found by
 * pairs of characters.
 */
const unspaced =
  "\\p{scx=Han}\\p{scx=Hira}\\p{scx=Kana}\\p{scx=Hang}\\p{scx=Bopo}\\p{scx=Thai}\\p{scx=Laoo}\\p{scx=Khmr}\\p{scx=Mymr}"
// Shared signs such as digits belong to every script by `scx`: only letters and marks make a run.
const runs = new RegExp(`((?:(?=[\\p{L}\\p{M}])[${unspaced}])+)|((?:(?!(?=[\\p{L}\\p{M}])[${unspaced}])[^])+)`, "gu")

const inRun = new RegExp(`^(?=[\\p{L}\\p{M}])[${unspaced}]`, "u")

/** Longer words count by their beginnings. */
const longestWord = 64
/** Beyond so many words a message is not looked at; the database has no places for them either. */
const maxWords = 8_000
/** Between two texts of one message, so that no phrase reaches across. */
const gap = 16

export interface Token {
  readonly word: string
  readonly place: number
  /** The last character of a run without blanks, which is in no pair of its own. */
  readonly isLast: boolean
}

/** The words of a text in order, the first at `from`. */
export const tokensOf = (text: string, from = 1): Token[] =>
  isAscii(text) ? asciiTokens(text.toLowerCase(), from) : tokensOfAny(text, from)

function asciiTokens(text: string, from: number): Token[] {
  const tokens: Token[] = []
  const found = /[a-z0-9]+/g
  for (let match = found.exec(text); match && tokens.length < maxWords; match = found.exec(text))
    tokens.push({ word: match[0].slice(0, longestWord), place: from + tokens.length, isLast: false })
  return tokens
}

function tokensOfAny(text: string, from: number): Token[] {
  const tokens: Token[] = []
  let place = from
  for (const [found] of foldedWord(text).matchAll(words)) {
    for (const [, run, plain] of found.matchAll(runs)) {
      if (tokens.length >= maxWords) return tokens
      if (plain !== undefined) {
        tokens.push({ word: shortened(plain), place: place++, isLast: false })
        continue
      }
      const characters = Array.from(run!)
      for (const [i, character] of characters.entries()) {
        const next = characters[i + 1]
        tokens.push({ word: character + (next ?? ""), place: place++, isLast: next === undefined })
      }
    }
  }
  return tokens
}

const shortened = (word: string): string =>
  word.length <= longestWord ? word : Array.from(word).slice(0, longestWord).join("")

/** Whether a language's endings may be taken off it. */
export const mayHaveStem = (word: string): boolean => /^\p{L}{3,}$/u.test(word)

const short = (id: Snowflake): string => BigInt(id).toString(36)
/** No word has a colon or an equals sign. */
export const factOf = {
  server: (id: Snowflake) => `:s${short(id)}`,
  channel: (id: Snowflake) => `:c${short(id)}`,
  participant: (id: Snowflake) => `:d${short(id)}`,
  author: (id: Snowflake) => `:a${short(id)}`,
  mention: (id: Snowflake) => `:m${short(id)}`,
  has: (what: string) => `:h${what}`,
  /** The first letter, which differs between flags; no other fact is a single letter. */
  flag: (flag: string) => `:${flag[0]}`,
  stem: (stem: string) => `=${stem}`,
  /** One of a run without blanks, whose words are pairs. */
  character: (character: string) => `=${character}`,
} as const

export const searchable = ["link", "image", "file", "embed", "video", "audio", "attachment"] as const

/** A message as the index takes it. */
export interface SearchSource
  extends
    Pick<
      MessageState,
      "id" | "channel_id" | "server_id" | "author_id" | "content" | "edited_at" | "embeds" | "attachments"
    >,
    FlagFields {
  /** Its question, and what can be chosen. */
  readonly poll_texts?: readonly string[] | null
  /** Of a conversation outside servers. */
  readonly participants: readonly Snowflake[] | null
}

interface EmbedTexts {
  title?: unknown
  description?: unknown
  url?: unknown
  image?: unknown
  thumbnail?: unknown
  video?: unknown
  footer?: { text?: unknown } | null
  author?: { name?: unknown } | null
  provider?: { name?: unknown } | null
  fields?: readonly { name?: unknown; value?: unknown }[] | null
}

function embedTexts(embed: EmbedTexts): string[] {
  const fields = Array.isArray(embed.fields) ? (embed.fields as NonNullable<EmbedTexts["fields"]>) : []
  return [
    embed.title,
    embed.description,
    embed.author?.name,
    embed.provider?.name,
    ...fields.flatMap(field => [field?.name, field?.value]),
    embed.footer?.text,
  ].filter(text => typeof text === "string")
}

/**
 * All that can be found in a message's words: its text, its embeds, the names of its files, its
 * poll.
 */
function textsOf(message: SearchSource): string[] {
  return [
    message.content ?? "",
    ...(message.embeds ?? []).flatMap(embed => embedTexts((embed ?? {}) as EmbedTexts)),
    ...(message.attachments ?? []).map(({ filename }) => filename),
    ...(message.poll_texts ?? []),
  ].filter(text => text !== "")
}

function factsOf(message: SearchSource): Set<string> {
  const facts = new Set<string>([
    factOf.channel(message.channel_id),
    factOf.author(message.author_id),
    ...stretchesOf(message.id),
  ])
  if (message.server_id !== null) facts.add(factOf.server(message.server_id))
  for (const user of message.participants ?? []) facts.add(factOf.participant(user))
  const content = message.content ?? ""
  if (content.includes("<@"))
    for (const [, id] of content.matchAll(/<@!?([1-9]\d{0,18})>/g)) facts.add(factOf.mention(id!))
  for (const [flag, isSet] of Object.entries(flagsOf(message))) if (isSet) facts.add(factOf.flag(flag))
  if (content.includes("://") && /https?:\/\/\S/i.test(content)) facts.add(factOf.has("link"))
  const embeds = (message.embeds ?? []).map(embed => (embed ?? {}) as EmbedTexts)
  if (embeds.length > 0) facts.add(factOf.has("embed"))
  for (const embed of embeds) {
    if (typeof embed.url === "string") facts.add(factOf.has("link"))
    if (embed.image || embed.thumbnail) facts.add(factOf.has("image"))
    if (embed.video) facts.add(factOf.has("video"))
  }
  for (const { content_type } of message.attachments ?? []) {
    facts.add(factOf.has("attachment"))
    facts.add(factOf.has("file"))
    const [kind] = content_type.split("/")
    if (kind === "image" || kind === "video" || kind === "audio") facts.add(factOf.has(kind))
  }
  return facts
}

/** A message's words, each with its places. */
export function wordsOf(message: SearchSource): Map<string, number[]> {
  const places = new Map<string, number[]>()
  let from = 1
  let left = maxWords
  for (const text of textsOf(message)) {
    const tokens = tokensOf(text, from).slice(0, left)
    left -= tokens.length
    for (const { word, place } of tokens) append(places, word, place)
    from = (tokens.at(-1)?.place ?? from) + gap
  }
  return places
}

/** As PostgreSQL reads a `tsvector`. No lexeme has a quote or a backslash in it. */
export function vectorText(
  message: SearchSource,
  words: Map<string, number[]>,
  stemsOf: (word: string) => readonly string[],
): string {
  const bare = factsOf(message)
  const placed: string[] = []
  for (const [word, places] of words) {
    placed.push(`'${word}':${places.slice(0, 255).join(",")}`)
    for (const stem of stemsOf(word)) if (stem !== word) bare.add(factOf.stem(stem))
    if (word.charCodeAt(0) > 0x7f && inRun.test(word))
      for (const character of word) bare.add(factOf.character(character))
  }
  return [...placed, ...[...bare].map(fact => `'${fact}'`)].join(" ")
}

/** Languages whose endings PostgreSQL 14 and later know by themselves. */
export const stemmedLanguages = [
  "arabic",
  "armenian",
  "basque",
  "catalan",
  "danish",
  "dutch",
  "english",
  "finnish",
  "french",
  "german",
  "greek",
  "hindi",
  "hungarian",
  "indonesian",
  "irish",
  "italian",
  "lithuanian",
  "nepali",
  "norwegian",
  "portuguese",
  "romanian",
  "russian",
  "serbian",
  "spanish",
  "swedish",
  "tamil",
  "turkish",
  "yiddish",
] as const
