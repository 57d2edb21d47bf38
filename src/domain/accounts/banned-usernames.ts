import { RE2JS } from "re2js"
import { lookAlike, lookKey, shownCharacters } from "./look-alikes.ts"

/** A name, or an expression for names, that an operator has banned. */
export interface BannedUsername {
  readonly id: string
  readonly pattern: string
  readonly is_regex: boolean
  readonly reason: string | null
}

/** Of all, and expressions among them. */
export const maxBannedUsernames = 5_000
export const maxBannedExpressions = 200
/**
 * Instructions of one expression, and of all. An engine goes through them at most once for each
 * character of a name, so this bounds what a name costs.
 */
export const maxExpressionSize = 1_000
export const maxExpressionSizes = 20_000

/** What a refusal says that gives no reason of its own. */
export const usualReason = "Reserved or prohibited term"

/** Undefined: it is no expression of RE2, or one that costs too much. */
export function bannedExpression(pattern: string): { readonly expression: RE2JS; readonly size: number } | undefined {
  try {
    const expression = RE2JS.compile(pattern, RE2JS.CASE_INSENSITIVE)
    const size = expression.programSize()
    return size <= maxExpressionSize ? { expression, size } : undefined
  } catch {
    return undefined
  }
}

interface Plain {
  readonly shown: readonly string[]
  readonly reason: string | null
}

/**
 * What names must not be. A plain pattern is compared with a whole name, in any case and as both
 * look; an expression is looked for anywhere in it.
 */
export class BannedUsernames {
  readonly #names = new Map<string, string | null>()
  /** By `lookKey`. */
  readonly #looks = new Map<string, Plain[]>()
  readonly #expressions = new Map<string, { readonly expression: RE2JS; readonly reason: string | null }>()

  private constructor() {}

  /**
   * @param pause between two expressions: to compile one takes a while
   * @param before has those that were compiled already
   */
  static async of(
    banned: Iterable<BannedUsername>,
    pause: () => Promise<unknown>,
    before?: BannedUsernames,
  ): Promise<BannedUsernames> {
    const made = new BannedUsernames()
    for (const { id, pattern, is_regex, reason } of banned) {
      if (!is_regex) {
        made.#ban(pattern, reason)
        continue
      }
      const known = before === undefined ? undefined : before.#expressions.get(id)
      if (known === undefined) await pause()
      // A version of this program that knows more may have written it.
      const expression = known?.expression ?? bannedExpression(pattern)?.expression
      if (expression) made.#expressions.set(id, { expression, reason })
    }
    return made
  }

  #ban(pattern: string, reason: string | null): void {
    this.#names.set(pattern.toLowerCase(), reason)
    const shown = shownCharacters(pattern)
    if (shown.length === 0) return
    const key = lookKey(shown)
    this.#looks.set(key, [...(this.#looks.get(key) ?? []), { shown, reason }])
  }

  /** Why a name is refused; undefined: it is not. */
  reasonAgainst(name: string): string | undefined {
    const lower = name.toLowerCase()
    if (this.#names.has(lower)) return this.#names.get(lower) ?? usualReason
    const shown = shownCharacters(name)
    const alike = this.#looks.get(lookKey(shown))?.find(each => lookAlike(each.shown, shown))
    if (alike) return alike.reason ?? usualReason
    for (const { expression, reason } of this.#expressions.values())
      if (expression.matcher(name).find()) return reason ?? usualReason
    return undefined
  }
}
