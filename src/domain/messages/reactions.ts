import { emojiPath } from "../../contract/communities/emojis.ts"
import { codePoints, type Snowflake } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"

export interface ReactionTally {
  /** As its first user wrote it. */
  emoji: string
  count: number
  /** Of a custom emoji. */
  custom_emoji_id: Snowflake | null
  url: string | null
}

/** What somebody reacts with. */
export interface GivenEmoji {
  /** As the user wrote it. */
  readonly text: string
  /** Of a custom emoji. */
  readonly id: Snowflake | null
}

const custom = /^(?:<a?:[A-Za-z0-9_]{2,32}:([1-9]\d{0,18})>|([1-9]\d{0,18}))$/
/**
 * In every script, and nothing that cannot be seen: one name would pass for another. The compiler
 * does not know the flag.
 */
const visible = (characters: string) => `[[${characters}]--\\p{Default_Ignorable_Code_Point}]`
const word = `${visible("\\p{L}\\p{N}_+\\-")}${visible("\\p{L}\\p{N}\\p{Mn}\\p{Mc}_+\\-")}*`
const name = new RegExp(`^(?::${word}:|${word})$`, "v")
/** Made when it is needed: its table takes 20 ms, and few processes ever see an emoji. */
let recommended: RegExp | undefined
/** A skin tone alone shows nothing. */
const isRecommended = (text: string): boolean =>
  (recommended ??= new RegExp("^(?!\\p{Emoji_Modifier})\\p{RGI_Emoji}$", "v")).test(text)
/** Where a selector belongs: after what is drawn as text without one. */
const textual = /(?=\p{Emoji})\P{Emoji_Presentation}(?!\p{Emoji_Modifier})/gu
/** One that asks for the text itself belongs there, too. */
const asText = /(?<=(?=\p{Emoji})\P{Emoji_Presentation})\ufe0e(?!\p{Emoji_Modifier})/gu
/** A selector that selects nothing, or selects again. */
const idle = /(?<!\p{Emoji})\ufe0f/u

/**
 * Undefined: it is none. What comes back unchanged is compared as it is written: no table says
 * which name means which emoji.
 */
export function givenEmoji(text: string): GivenEmoji | undefined {
  const written = custom.exec(text)
  if (written) {
    const id = (written[1] ?? written[2])!
    return id.length < 19 || id <= "9223372036854775807" ? { text, id } : undefined
  }
  if (codePoints(text) > limits.emojiCharacters) return undefined
  return name.test(text) || isPicture(text) ? { text, id: null } : undefined
}

/** Many write an emoji without its selectors, or with one too many. */
const isPicture = (text: string): boolean =>
  !idle.test(text) && isRecommended(text.replace(asText, "").replaceAll("\ufe0f", "").replace(textual, "$&\ufe0f"))

/** What an emoji is among those of a message, however it was written. */
export const emojiKey = ({ id, text }: GivenEmoji): string => id ?? text
export const tallyKey = ({ custom_emoji_id, emoji }: Readonly<ReactionTally>): string => custom_emoji_id ?? emoji

type Tallies = readonly Readonly<ReactionTally>[]

export const tallyOf = (tallies: Tallies | null | undefined, key: string): Readonly<ReactionTally> | undefined =>
  tallies?.find(tally => tallyKey(tally) === key)

/** The tallies once more, with one more of an emoji: a new one comes last. */
export const oneMore = (tallies: Tallies, given: GivenEmoji): Tallies =>
  tallyOf(tallies, emojiKey(given))
    ? tallies.map(tally => (tallyKey(tally) === emojiKey(given) ? { ...tally, count: tally.count + 1 } : tally))
    : [
        ...tallies,
        { emoji: given.text, count: 1, custom_emoji_id: given.id, url: given.id === null ? null : emojiPath(given.id) },
      ]

/** The tallies once more, with one less of an emoji: nothing is left of one that nobody uses. */
export const oneLess = (tallies: Tallies, key: string): Tallies =>
  tallies.flatMap(tally =>
    tallyKey(tally) !== key ? [tally] : tally.count > 1 ? [{ ...tally, count: tally.count - 1 }] : [],
  )

/** Tallies for one user; `isOwn` says which emoji they use. */
export const shownReactions = (tallies: Tallies | null | undefined, isOwn: (key: string) => boolean = () => false) =>
  (tallies ?? []).map(tally => ({ ...tally, me: isOwn(tallyKey(tally)), is_custom: tally.custom_emoji_id !== null }))

/** How often a message was reacted to. */
export const reactionsIn = (tallies: Tallies | null | undefined): number =>
  (tallies ?? []).reduce((sum, { count }) => sum + count, 0)
