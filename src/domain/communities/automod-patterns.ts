import { RE2JS } from "re2js"
import type { AutomodConfig } from "../../contract/communities/automod.ts"
import { isUnjudged, type Judged, type TextVerdict } from "./automod-match.ts"

/**
 * Patterns of users. An engine goes through its instructions at most once for each character, so
 * what a pattern costs is bounded by its size times the length of the text: its steps.
 */

/** The steps that the patterns of a server may take for one message. */
export class StepBudget {
  #left: number
  #reserved = 0

  constructor(steps: number) {
    this.#left = steps
  }

  /** Keeps steps for later. */
  reserve(steps: number): void {
    this.#reserved += steps
  }

  release(steps: number): void {
    this.#reserved -= steps
  }

  /** Takes steps if there are so many that are not kept for others. */
  take(steps: number): boolean {
    if (!this.has(steps)) return false
    this.#left -= steps
    return true
  }

  /** Whether there are so many that are not kept for others. */
  has(steps: number): boolean {
    return steps <= this.#left - this.#reserved
  }

  get left(): number {
    return this.#left
  }
}

export interface PatternFlags {
  readonly case_sensitive: boolean
  readonly multiline: boolean
}

/** Undefined when it is no pattern. */
export function compiledPattern(pattern: string, flags: PatternFlags): RE2JS | undefined {
  try {
    return RE2JS.compile(
      pattern,
      (flags.case_sensitive ? 0 : RE2JS.CASE_INSENSITIVE) | (flags.multiline ? RE2JS.MULTILINE : 0),
    )
  } catch {
    return undefined
  }
}

/** Bytes that an engine may remember of the states of one pattern; 8 MiB unless it is told. */
const stateBytes = 262_144

/** What of the engine is set here; it has no option for it. */
interface Engine {
  re2(): { readonly dfa: { stateBudget: number; memBudget: number } }
}

/** Where a match stands, or why there is none. */
type Found = { readonly matched: string; readonly code: string } | "none" | "no_steps"

/** A pattern that counts what it does. */
class MeteredPattern {
  readonly #expression: RE2JS
  readonly #hasCode: boolean
  /** Its instructions. */
  readonly size: number
  /** Whether it may find in a text alone what it does not find where a line follows. */
  readonly looksAtEnd: boolean

  /** `findsCode`: whether its first group is wanted, where it has one. */
  constructor(source: string, flags: PatternFlags, findsCode: boolean) {
    // It was compiled when the rule was written, too.
    this.#expression = compiledPattern(source, flags)!
    this.#hasCode = findsCode && this.#expression.groupCount() > 0
    this.size = this.#expression.programSize()
    this.looksAtEnd = /\$|\\z/.test(source)
    const { dfa } = (this.#expression as unknown as Engine).re2()
    dfa.stateBudget = dfa.memBudget = stateBytes
  }

  /** The steps of one pass. */
  stepsFor(length: number): number {
    return this.size * (length + 1)
  }

  /**
   * Goes from match to match. The first pass only says whether there is any, which costs least;
   * most texts have none.
   */
  matches(text: string, steps: StepBudget): () => Found {
    const matcher = this.#expression.matcher(text)
    let from = -1
    return () => {
      if (from === -1) {
        if (!steps.take(this.stepsFor(text.length))) return "no_steps"
        if (!this.#expression.test(text)) return "none"
        from = 0
      }
      // What stands in a group is found by another pass.
      if (!steps.take((this.#hasCode ? 2 : 1) * this.stepsFor(text.length - from))) return "no_steps"
      if (!matcher.find()) return "none"
      from = matcher.end()
      const matched = matcher.group() ?? ""
      return { matched, code: (this.#hasCode ? matcher.group(1) : null) ?? matched }
    }
  }

  /** The steps that are needed to say whether there is a match, and to find it. */
  stepsToFind(length: number): number {
    return (this.#hasCode ? 3 : 2) * this.stepsFor(length)
  }
}

/** Patterns as a thread keeps them. */
export interface CompiledPatterns {
  readonly match: (judged: Judged, steps: StepBudget) => TextVerdict
  /** Steps that are kept for them, so that they can judge a text of such a length: `match` releases them. */
  readonly steps: (length: number) => number
}

const tooExpensive = { unjudged: "too_expensive" } as const

/**
 * Looks for something in all that a message says, as far as the steps suffice, and in the text
 * alone, for which they are kept: what is found in a text is found in what begins with it and a line
 * break, but for a pattern that looks at the end.
 */
function inAll(
  { content, alone }: Judged,
  pattern: MeteredPattern,
  steps: StepBudget,
  look: (text: string) => TextVerdict,
): TextVerdict {
  steps.release(pattern.stepsToFind((alone?.content ?? content).length))
  if (!alone) return look(content)
  const whole = steps.has(pattern.stepsToFind(content.length) + pattern.stepsToFind(alone.content.length))
    ? look(content)
    : tooExpensive
  if (whole === null && !pattern.looksAtEnd) return null
  if (whole !== null && !isUnjudged(whole)) return whole
  return look(alone.content) ?? whole
}

export function regex({ patterns }: AutomodConfig<"regex">): CompiledPatterns {
  const compiled = patterns.map(({ pattern, name, severity, ...flags }) => ({
    pattern: new MeteredPattern(pattern, flags, false),
    name,
    severity,
  }))
  return {
    steps: length => compiled.reduce((sum, { pattern }) => sum + pattern.stepsToFind(length), 0),
    match(judged, steps) {
      let unjudged: TextVerdict = null
      for (const [at, { pattern, name, severity }] of compiled.entries()) {
        const verdict = inAll(judged, pattern, steps, text => {
          const found = pattern.matches(text, steps)()
          if (found === "none") return null
          if (found === "no_steps") return tooExpensive
          return { matched: found.matched, severity, ...(name !== "" && { metadata: { pattern: name } }) }
        })
        if (verdict !== null && !isUnjudged(verdict)) {
          const { length } = (judged.alone ?? judged).content
          for (const rest of compiled.slice(at + 1)) steps.release(rest.pattern.stepsToFind(length))
          return verdict
        }
        unjudged ??= verdict
      }
      return unjudged
    },
  }
}

/** Invites that a pattern of one's own finds in one message. */
const maxInvites = 20

/** The pattern of one's own of a rule about invites; undefined: it has none. */
export function ownInvites({
  pattern: source,
  allowed_codes,
}: AutomodConfig<"invite_links">): CompiledPatterns | undefined {
  if (source === null) return undefined
  const allowed = new Set(allowed_codes)
  const pattern = new MeteredPattern(source, { case_sensitive: false, multiline: false }, true)
  const look = (text: string, steps: StepBudget): TextVerdict => {
    const next = pattern.matches(text, steps)
    // So many invites are too many, whatever they are.
    for (let looks = 1; ; looks++) {
      const found = next()
      if (found === "none") return null
      if (found === "no_steps") return tooExpensive
      const { matched, code } = found
      if (looks > maxInvites || !allowed.has(code)) return { matched, severity: "medium", metadata: { code } }
    }
  }
  return {
    steps: length => pattern.stepsToFind(length),
    match: (judged, steps) => inAll(judged, pattern, steps, text => look(text, steps)),
  }
}
