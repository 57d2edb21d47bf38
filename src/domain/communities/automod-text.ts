import type { AutomodConfig, Severity } from "../../contract/communities/automod.ts"
import { severities } from "../../contract/communities/automod.ts"
import { codePoints } from "../../contract/core/fields.ts"
import type { Matcher } from "./automod-match.ts"
import { perMessage } from "./automod-looks.ts"

/**
 * The rules without patterns that look at nothing but the text. Each takes time in proportion to its
 * length, whatever stands in it.
 */

/** More marks than any script puts on a letter: to order many of them takes time by the square. */
const pile = /(\p{M}{16})\p{M}+/gu
export const withoutPiles = (text: string): string => text.replace(pile, "$1")
/** Marks that strike a letter out or stand around it: it is read all the same. */
const overlay = /[\u0334-\u0338\u20d0-\u20f0]+/g
const unseen = /\p{Default_Ignorable_Code_Point}+/gu
/**
 * All but the two ligatures that stand for whole sentences: with them a text could grow to eighteen
 * times its length.
 */
const normalized = /[^\ufdfa\ufdfb]+/g

/** A text without the characters that show nothing. */
export const withoutUnseen = (text: string): string => text.replace(unseen, "")

/**
 * A text without what only looks different: compatibility forms and what shows nothing are taken
 * away, and the case of letters unless it counts.
 */
export function folded(text: string, isCaseKept = false): string {
  // Nearly every text is plain: it is its own normal form.
  const plain = /^[\x20-\x7e\n]*$/.test(text)
    ? text
    : // What stands between a letter and its mark goes first: they are one character then.
      withoutPiles(withoutUnseen(text).replace(overlay, "")).replace(normalized, part => part.normalize("NFKC"))
  return isCaseKept ? plain : plain.toUpperCase().toLowerCase().replaceAll("ς", "σ")
}

const wordCharacter = /[\p{L}\p{N}\p{M}]/u
/**
 * A mark of no script of its own, as are the accents; vowel signs, which make another word, have
 * one.
 */
const accent = /(?=\p{M})\p{Script=Inherited}/u

/** By place in a text, 1: a word goes on across it. */
function insidesOf(text: string): Uint8Array {
  const insides = new Uint8Array(text.length + 1)
  let isAfterWord = false
  // Where accents begin: whether a word goes on there depends on what stands behind them.
  let accents = -1
  for (let at = 0; at < text.length;) {
    const character = String.fromCodePoint(text.codePointAt(at)!)
    const isAccent = accent.test(character)
    const isWord = wordCharacter.test(character)
    if (isAccent && accents === -1) accents = at
    if (!isAccent) {
      if (isAfterWord && isWord) insides.fill(1, accents === -1 ? at : accents, at + 1)
      accents = -1
      isAfterWord = isWord
    }
    if (character.length > 1) insides[at + 1] = 1
    at += character.length
  }
  return insides
}

const looksAt = (isCaseKept: boolean) => {
  const textOf = perMessage(({ content }) => folded(content, isCaseKept))
  return { textOf, insidesOf: perMessage(judged => insidesOf(textOf(judged))) }
}
const [exact, anyCase] = [looksAt(true), looksAt(false)]

/**
 * All keywords at once, after Aho and Corasick: one step for each character of a text, however many
 * keywords there are. Its nodes stand in typed arrays: the longest lists of a server have 250,000.
 */
class KeywordTree {
  /** From a node by a character to the next: a hash table of three numbers each, 0 in the third: free. */
  readonly #steps: Int32Array
  readonly #mask: number
  readonly #fallback: Int32Array
  /** The keyword that ends at a node, and the nearest shorter ending below it; -1: none. */
  readonly #ends: Int32Array
  readonly #shorter: Int32Array
  /** The highest rank of what ends at a node or below it. */
  readonly #best: Int32Array
  readonly #lengths: number[]
  readonly #ranks: readonly number[]

  /** `ranks`: how severe each word is, from 0. */
  constructor(words: readonly string[], ranks: readonly number[]) {
    this.#lengths = words.map(word => word.length)
    this.#ranks = ranks
    const most = 1 + this.#lengths.reduce((sum, length) => sum + length, 0)
    const places = 2 ** Math.ceil(Math.log2(2 * most))
    this.#mask = places - 1
    this.#steps = new Int32Array(3 * places)
    this.#fallback = new Int32Array(most)
    this.#ends = new Int32Array(most).fill(-1)
    this.#shorter = new Int32Array(most).fill(-1)
    this.#best = new Int32Array(most).fill(-1)
    const [parentOf, unitOf] = [new Int32Array(most), new Uint16Array(most)]
    const depthOf = new Uint16Array(most)
    let nodes = 1
    for (const [index, word] of words.entries()) {
      let node = 0
      for (let i = 0; i < word.length; i++) {
        const unit = word.charCodeAt(i)
        const place = this.#placeOf(node, unit)
        let child = this.#steps[place + 2]!
        if (child === 0) {
          child = nodes++
          this.#steps[place] = node
          this.#steps[place + 1] = unit
          this.#steps[place + 2] = child
          parentOf[child] = node
          unitOf[child] = unit
          depthOf[child] = i + 1
        }
        node = child
      }
      const known = this.#ends[node]!
      if (known === -1 || ranks[known]! < ranks[index]!) this.#ends[node] = index
    }
    // Nodes by their depth: what a node falls back to is known before it.
    for (const node of byDepth(depthOf.subarray(0, nodes))) {
      if (node === 0) continue
      const parent = parentOf[node]!
      const back = parent === 0 ? 0 : this.#after(this.#fallback[parent]!, unitOf[node]!)
      this.#fallback[node] = back
      this.#shorter[node] = back === 0 ? -1 : this.#ends[back] === -1 ? this.#shorter[back]! : back
      this.#best[node] = Math.max(ranks[this.#ends[node]!] ?? -1, this.#best[this.#shorter[node]] ?? -1)
    }
  }

  /**
   * The gravest keyword that stands in a text, the first of them, by its index; -1: none. With
   * `insides`: that stands there as a word.
   */
  gravest(text: string, insides: Readonly<Uint8Array> | undefined): number {
    let found = -1
    let rank = -1
    let node = 0
    for (let i = 0; i < text.length; i++) {
      node = this.#after(node, text.charCodeAt(i))
      if (this.#best[node]! <= rank || insides?.[i + 1] === 1) continue
      for (
        let at = this.#ends[node] === -1 ? this.#shorter[node]! : node;
        at !== -1 && this.#best[at]! > rank;
        at = this.#shorter[at]!
      ) {
        const index = this.#ends[at]!
        if (this.#ranks[index]! <= rank || insides?.[i + 1 - this.#lengths[index]!] === 1) continue
        found = index
        rank = this.#ranks[index]!
      }
    }
    return found
  }

  /** Where the step from a node by a character stands, or would stand. */
  #placeOf(node: number, unit: number): number {
    const steps = this.#steps
    let at = (Math.imul(node, 0x9e3779b1) ^ Math.imul(unit, 0x85ebca6b)) >>> 7
    for (; ; at++) {
      const place = 3 * (at & this.#mask)
      if (steps[place + 2] === 0 || (steps[place] === node && steps[place + 1] === unit)) return place
    }
  }

  #after(from: number, unit: number): number {
    for (let node = from; ; node = this.#fallback[node]!) {
      const next = this.#steps[this.#placeOf(node, unit) + 2]!
      if (next !== 0) return next
      if (node === 0) return 0
    }
  }
}

/** The indexes of numbers, by the number. */
function byDepth(depths: Readonly<Uint16Array>): Int32Array {
  const starts = new Int32Array(depths.reduce((most, depth) => Math.max(most, depth), 0) + 2)
  for (const depth of depths) starts[depth + 1]!++
  for (let depth = 1; depth < starts.length; depth++) starts[depth]! += starts[depth - 1]!
  const order = new Int32Array(depths.length)
  for (const [index, depth] of depths.entries()) order[starts[depth]!++] = index
  return order
}

export function keyword(config: AutomodConfig<"keyword">): Matcher {
  const { keywords, case_sensitive, whole_word, severity_map } = config
  const severityOf = (word: string): Severity => (Object.hasOwn(severity_map, word) ? severity_map[word]! : "medium")
  const tree = new KeywordTree(
    keywords.map(word => folded(word, case_sensitive)),
    keywords.map(word => severities.indexOf(severityOf(word))),
  )
  const { textOf, insidesOf } = case_sensitive ? exact : anyCase
  return judged => {
    const text = textOf(judged)
    let found = tree.gravest(text, undefined)
    // Where nothing stands at all, nothing stands as a word.
    if (found !== -1 && whole_word) found = tree.gravest(text, insidesOf(judged))
    if (found === -1) return undefined
    const matched = keywords[found]!
    return { matched, severity: severityOf(matched) }
  }
}

const userMention = /<@!?(\d{1,20})>/g
const roleMention = /<@&(\d{1,20})>/g
const everyoneMention = /(?<![\p{L}\p{N}_])@(everyone|here)(?![\p{L}\p{N}_])/gu

const mentionsIn = perMessage(({ content }) => {
  const count = (mention: RegExp) => {
    const named = content.includes("@") ? Array.from(content.matchAll(mention), ([, id]) => id) : []
    return { all: named.length, unique: new Set(named).size }
  }
  return { users: count(userMention), roles: count(roleMention), everyone: count(everyoneMention) }
})

export function mentionSpam(config: AutomodConfig<"mention_spam">): Matcher {
  const { max_user_mentions, max_role_mentions, max_total_mentions, block_everyone, count_unique_only } = config
  const counted = count_unique_only ? "unique" : "all"
  return judged => {
    const mentions = mentionsIn(judged)
    const [users, roles, everyone] = [mentions.users[counted], mentions.roles[counted], mentions.everyone[counted]]
    const isTooMany =
      users > max_user_mentions || roles > max_role_mentions || users + roles + everyone > max_total_mentions
    if (!isTooMany && !(block_everyone && everyone > 0)) return undefined
    return {
      matched: judged.content,
      severity: everyone > 0 && block_everyone ? "high" : "medium",
      metadata: { users, roles, everyone },
    }
  }
}

/** Emoji of a server, and stickers: pictures, whatever their names are. */
const customEmoji = /<(?:a?:\w{2,32}|sticker:[\p{L}\p{N}_]{1,32}):\d{1,20}>/gu
const anyEmoji = /\p{Extended_Pictographic}|\p{Regional_Indicator}|\u20e3/u
/** Signs that a grapheme of them alone is text. */
const textSign = /^[\u00a9\u00ae\u2122]$/
const segmenter = new Intl.Segmenter("en", { granularity: "grapheme" })

/** Going from grapheme to grapheme takes time by the square of the length, so it is done piece by piece. */
const pieceLength = 500

/** The graphemes of a text. The last one of a piece may go on in the next. */
export function* graphemesOf(text: string): Generator<string> {
  let length = pieceLength
  for (let from = 0; from < text.length;) {
    const found = Array.from(segmenter.segment(text.slice(from, from + length)), ({ segment }) => segment)
    const isEnd = from + length >= text.length
    if (!isEnd) found.pop()
    yield* found
    if (isEnd) return
    // One grapheme is as long as the piece.
    length = found.length === 0 ? 2 * length : pieceLength
    for (const { length: taken } of found) from += taken
  }
}

const pictograph = /\p{Extended_Pictographic}/gu
/** Made when it is needed: its table takes 20 ms. */
let realEmoji: RegExp | undefined
/** A sequence that somebody's emoji are made of; `v` is needed to know whole sequences. */
const isRealEmoji = (text: string): boolean => (realEmoji ??= new RegExp("^\\p{RGI_Emoji}$", "v")).test(text)
/** A pictograph that is text unless a selector follows, which many leave out. */
const unselected = /(?!\p{Emoji_Presentation})\p{Extended_Pictographic}(?![\ufe0f\p{Emoji_Modifier}])/gu

/**
 * As how many a grapheme counts. Anything can be joined to one; only what there is a picture for is
 * seen as one.
 */
function emojiOf(grapheme: string): number {
  const pictographs = grapheme.match(pictograph)?.length ?? 0
  return pictographs < 2 || isRealEmoji(grapheme.replace(unselected, "$&\ufe0f")) ? 1 : pictographs
}

const emojiIn = perMessage(({ content }) => {
  let custom = 0
  const text = content.replace(customEmoji, () => {
    custom++
    return ""
  })
  let unicode = 0
  let others = 0
  if (custom > 0 || anyEmoji.test(text))
    for (const segment of graphemesOf(text))
      if (anyEmoji.test(segment) && !textSign.test(segment)) unicode += emojiOf(segment)
      else if (segment.trim() !== "") others++
  return { custom, unicode, others }
})

export function massEmoji(config: AutomodConfig<"mass_emoji">): Matcher {
  const { max_emoji, max_percentage, count_custom, count_unicode, min_length } = config
  return judged => {
    const { custom, unicode, others } = emojiIn(judged)
    const emoji = (count_custom ? custom : 0) + (count_unicode ? unicode : 0)
    const length = custom + unicode + others
    const percentage = length === 0 ? 0 : Math.floor((100 * emoji) / length)
    const isTooDense = length >= min_length && percentage > max_percentage
    if (emoji <= max_emoji && !isTooDense) return undefined
    return { matched: judged.content, severity: "low", metadata: { emoji, percentage } }
  }
}

const command = /^\s*[/!]/
/** Mentions, names of emoji and addresses do not count as shouting. */
const notProse = /<(?:@[!&]?\d{1,20}|#\d{1,20}|a?:\w{2,32}:\d{1,20})>|https?:\/\/\S+/gi

const lettersIn = perMessage(({ content }) => {
  const text = content.replace(notProse, "").trim()
  return {
    isCommand: command.test(content),
    length: codePoints(text),
    upper: text.match(/[\p{Lu}\p{Lt}]/gu)?.length ?? 0,
    lower: text.match(/\p{Ll}/gu)?.length ?? 0,
  }
})

export function capsPercentage(config: AutomodConfig<"caps_percentage">): Matcher {
  const { max_percentage, min_length, ignore_commands } = config
  return judged => {
    const { isCommand, length, upper, lower } = lettersIn(judged)
    if ((ignore_commands && isCommand) || length < min_length || upper === 0) return undefined
    const percentage = Math.floor((100 * upper) / (upper + lower))
    return percentage > max_percentage
      ? { matched: judged.content, severity: "low", metadata: { percentage } }
      : undefined
  }
}

/** A character with the marks and the colour of skin that it bears. */
const borne = /\P{M}[\p{M}\p{Emoji_Modifier}]*|\p{M}+/gu

interface Run {
  readonly character: string
  readonly length: number
}
const runsIn = perMessage((judged): readonly Run[] => {
  const runs: Run[] = []
  let character = ""
  let length = 0
  const end = () => {
    if (length > 1) runs.push({ character, length })
  }
  for (const next of anyCase.textOf(judged).match(borne) ?? []) {
    if (next === character) {
      length++
      continue
    }
    end()
    character = next
    length = 1
  }
  end()
  return runs
})

export function repeatedChars(config: AutomodConfig<"repeated_chars">): Matcher {
  const { max_repeats, min_occurrences, ignore_whitespace, ignore_numbers } = config
  const isIgnored = (character: string) =>
    (ignore_whitespace && character.trim() === "") || (ignore_numbers && /^\p{N}$/u.test(character))
  return judged => {
    let occurrences = 0
    let matched = ""
    for (const { character, length } of runsIn(judged)) {
      if (length <= max_repeats || isIgnored(character)) continue
      if (matched === "") matched = character.repeat(max_repeats + 1)
      // A run that is twice as long counts twice.
      occurrences += Math.floor(length / (max_repeats + 1))
    }
    return occurrences < min_occurrences ? undefined : { matched, severity: "low", metadata: { occurrences } }
  }
}
