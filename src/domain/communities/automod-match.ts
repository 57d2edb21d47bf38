import type { ClassifierBackend, Severity, UnjudgedReason } from "../../contract/communities/automod.ts"
import type { Snowflake } from "../../contract/core/fields.ts"

/** What a server's home remembers of a message for as long as the next may be too much. */
export interface RecentPost {
  readonly id: Snowflake
  /** Unix milliseconds. */
  readonly at: number
  /** The beginning of its text, folded. */
  readonly text: string
}

/** What a classifier says of a text. */
export interface Scores {
  /** By category, from 0 to 1. */
  readonly categories: Readonly<Record<string, number>>
  /** From which on a rule that does not say is broken. */
  readonly threshold: number
}
export type ScoresByBackend = Readonly<Partial<Record<ClassifierBackend, Scores>>>

/** A message that a user sends, or the new form of one that they edit. */
export interface Judged {
  /** All that it says. */
  readonly content: string
  /**
   * Its text alone, which is compared with others, and which nothing beside it makes better;
   * undefined: that is all of it.
   */
  readonly text?: string | undefined
  readonly channel_id: Snowflake
  /** The author's roles; from their membership. */
  readonly roles: readonly Snowflake[]
  /** The message that this is to become the text of; undefined: it is a new one. */
  readonly edited?: Snowflake | undefined
  /** The author's latest in the channel, the oldest first. */
  readonly recent: readonly RecentPost[]
  /** Classifiers that can be asked. */
  readonly classifiers: readonly ClassifierBackend[]
  /** Undefined: they were not asked yet, which is done when the message is stored. */
  readonly scores?: ScoresByBackend | undefined
  /** The text alone, as a message of its own; undefined: there is nothing beside it. */
  readonly alone?: Judged | undefined
  /** What was made of it outside of the turn. */
  readonly verdicts?: TextVerdicts | undefined
  /** It is not judged outside of the turn again. */
  readonly isLast?: boolean | undefined
  /** Unix milliseconds. */
  readonly now: number
}

/** Why a message breaks a rule. */
export interface Match {
  readonly matched: string
  readonly severity: Severity
  readonly metadata?: Readonly<Record<string, unknown>>
}
export type Matcher = (judged: Judged) => Match | undefined

export interface Unjudged {
  readonly unjudged: UnjudgedReason
}

/** What a rule makes of a text. Null: the text does not break it. */
export type TextVerdict = Match | Unjudged | null

export const isUnjudged = (verdict: Match | Unjudged): verdict is Unjudged => "unjudged" in verdict

/** By the config of the rule: rules are replaced, never changed. */
export type TextVerdicts = ReadonlyMap<object, TextVerdict>
