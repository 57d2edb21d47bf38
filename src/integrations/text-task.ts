import type { TextVerdict } from "../domain/communities/automod-match.ts"
import type { Measured, TextRule } from "../domain/communities/automod-texts.ts"

/** What goes to the thread that judges texts, and what comes back. */

export interface TextTask {
  readonly id: number
  readonly content: string
  readonly text: string | undefined
  /** By key. Without the rule where the thread has it. */
  readonly rules: readonly (readonly [key: number, rule?: TextRule])[]
  /** Keys of rules that it is not asked about again. */
  readonly forget: readonly number[]
}

/** Rules whose patterns are to be compiled, to know how large they are. */
export interface PatternTask {
  readonly id: number
  readonly measure: readonly TextRule[]
}

export interface TextResult<T = TextVerdict | Measured> {
  readonly id: number
  /** In the order of the rules. */
  readonly found: readonly T[]
  /** For a text, in the same order: steps for each of its characters. */
  readonly steps?: readonly number[]
  /** Milliseconds. */
  readonly tookMs: number
}

/** Milliseconds after which the thread begins with no further rule. */
export const budgetMs = 500
