import type {
  AutomodConfig,
  AutomodRule,
  AutomodRuleType,
  ClassifierBackend,
} from "../../contract/communities/automod.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"
import { externalLinks, inviteLinks } from "./automod-links.ts"
import type { Judged, Matcher, TextVerdict, TextVerdicts } from "./automod-match.ts"
import { compiledPattern, ownInvites, regex, StepBudget } from "./automod-patterns.ts"
import { capsPercentage, keyword, massEmoji, mentionSpam, repeatedChars } from "./automod-text.ts"

/**
 * The rules whose verdict follows from the text alone. A turn judges a text only as long as that is
 * cheap; else a thread does it, before the turn, and so it does with every pattern of a user.
 */

/** A rule as a thread needs it. */
export type TextRule = Pick<AutomodRule, "rule_type" | "config">

/** What is asked of the thread. */
export interface TextQuestion {
  /** Of the server, and of the message. */
  readonly owner: Snowflake
  readonly author: Snowflake
  /** All that a message says, and its text alone. */
  readonly content: string
  readonly text: string | undefined
  readonly rules: readonly TextRule[]
  /** The verdicts of earlier questions about the same text. */
  readonly known: TextVerdicts
  /** How many questions were asked before. */
  readonly asked: number
}
export interface TextAnswer extends Pick<TextQuestion, "content" | "text"> {
  readonly verdicts: TextVerdicts
  readonly asked: number
}

/** What is the same of every text that is looked at by itself. */
const noPlace = {
  channel_id: "0",
  roles: [],
  recent: [],
  classifiers: [] as readonly ClassifierBackend[],
  now: 0,
} as const

type TextRuleType = Exclude<AutomodRuleType, "message_spam" | "ai_moderation">

const builtIn: { readonly [T in Exclude<TextRuleType, "regex">]: (config: AutomodConfig<T>) => Matcher } = {
  keyword,
  mention_spam: mentionSpam,
  invite_links: inviteLinks,
  mass_emoji: massEmoji,
  caps_percentage: capsPercentage,
  repeated_chars: repeatedChars,
  external_links: externalLinks,
}

/**
 * Proportions, which what stands beside a text can make better. What the other rules find in a text
 * they find in all that a message says, which begins with it and a line break.
 */
const judgedAlone: ReadonlySet<AutomodRuleType> = new Set(["mass_emoji", "caps_percentage"])

/**
 * Nanoseconds that a rule takes for a character of a text at worst, on a core of 2020: of the first
 * rule of a type, which looks at the text, and of each further one. Measured with the text that is
 * the worst for each type.
 */
const costs: { readonly [T in TextRuleType]: readonly [first: number, further: number] } = {
  keyword: [450, 100],
  regex: [0, 0],
  mention_spam: [100, 5],
  invite_links: [150, 10],
  mass_emoji: [1_000, 5],
  caps_percentage: [150, 5],
  repeated_chars: [600, 30],
  external_links: [2_400, 10],
}

/** What rules without patterns may take in a turn. */
const turnNanoseconds = 4_000_000
/** Characters of keywords that a turn may make a tree of, which it does once: about 5 milliseconds. */
const turnKeywordCharacters = 20_000

/** Whether a rule's verdict follows from the text alone. */
export const isTextRule = (type: AutomodRuleType): type is TextRuleType => Object.hasOwn(costs, type)

/** Whether a rule has a pattern of a user. */
export const hasPattern = ({ rule_type, config }: TextRule): boolean =>
  rule_type === "regex" || (rule_type === "invite_links" && (config as AutomodConfig<"invite_links">).pattern !== null)

/** The instructions of a rule's patterns as they are compiled, or what is wrong with one. */
export type Measured = number | { readonly fault: string }

/** Compiles the patterns of a rule, which is for a thread: some take 30 milliseconds each. */
export function measuredPatterns({ rule_type, config }: TextRule): Measured {
  const { pattern: own } = config as AutomodConfig<"invite_links">
  const patterns =
    rule_type === "regex"
      ? (config as AutomodConfig<"regex">).patterns.map((one, at) => ({ ...one, place: `patterns.${at}.pattern` }))
      : own === null
        ? []
        : [{ place: "pattern", pattern: own, case_sensitive: false, multiline: false }]
  let sum = 0
  for (const { place, pattern, ...flags } of patterns) {
    const size = compiledPattern(pattern, flags)?.programSize()
    if (size === undefined) return { fault: `${place}: is no regular expression as RE2 knows them` }
    if (size > limits.automod.patternSize)
      return { fault: `${place}: is too large when its repetitions are written out` }
    sum += size
    // It is refused for that, and to compile the rest takes time.
    if (sum > limits.automod.patternSizePerServer) break
  }
  return sum
}

/** Nanoseconds that rules without patterns take for a text at worst. */
export function costOf(rules: readonly TextRule[], length: number): number {
  const seen = new Set<AutomodRuleType>()
  let perCharacter = 0
  for (const { rule_type } of rules) {
    if (!isTextRule(rule_type)) continue
    const [first, further] = costs[rule_type]
    perCharacter += (seen.has(rule_type) ? 0 : first) + further
    seen.add(rule_type)
  }
  return perCharacter * length
}

const keywordCounts = new WeakMap<object, number>()
function keywordCharacters({ rule_type, config }: TextRule): number {
  if (rule_type !== "keyword") return 0
  let count = keywordCounts.get(config)
  if (count === undefined) {
    count = (config as AutomodConfig<"keyword">).keywords.reduce((sum, { length }) => sum + length, 0)
    keywordCounts.set(config, count)
  }
  return count
}

/** What a step of a pattern takes at worst, and a character of a keyword when a thread first meets it. */
const stepNanoseconds = 40
const keywordNanoseconds = 1_700

/** Nanoseconds that a thread takes at worst. `stepsOf`: for each character; undefined: nobody knows yet. */
export function threadCost(
  { content, text, rules }: Pick<TextQuestion, "content" | "text" | "rules">,
  stepsOf: (rule: TextRule) => number | undefined,
): number {
  const length = content.length + (text?.length ?? 0)
  return rules.reduce(
    (sum, rule) =>
      sum +
      keywordCharacters(rule) * keywordNanoseconds +
      (hasPattern(rule) ? (stepsOf(rule) ?? Infinity) * (length + 1) * stepNanoseconds : 0),
    costOf(rules, length),
  )
}

/** Those of these rules that are not for a turn: with patterns, or too many for so long a text. */
export function notForTurn(rules: readonly AutomodRule[], length: number): readonly AutomodRule[] {
  const texts = rules.filter(({ rule_type }) => isTextRule(rule_type))
  const plain = texts.filter(rule => !hasPattern(rule))
  const isLong =
    costOf(plain, length) > turnNanoseconds ||
    plain.reduce((sum, rule) => sum + keywordCharacters(rule), 0) > turnKeywordCharacters
  return isLong ? texts : texts.filter(hasPattern)
}

/** The matcher of a rule without patterns, for one text. */
export function textMatcher({ rule_type, config }: TextRule): Matcher | undefined {
  if (!isTextRule(rule_type) || rule_type === "regex") return undefined
  const make = builtIn[rule_type] as (config: unknown) => Matcher
  const matcher = make(config)
  if (!judgedAlone.has(rule_type)) return matcher
  return judged => matcher(judged) ?? (judged.alone && matcher(judged.alone))
}

/** A rule as a thread keeps it. */
export interface CompiledRule {
  readonly match: (judged: Judged, steps: StepBudget) => TextVerdict
  /** Steps that its patterns take for a text of such a length, whatever is found. */
  readonly steps: (length: number) => number
}

export function compiledRule(rule: TextRule): CompiledRule {
  const { rule_type, config } = rule
  if (rule_type === "regex") return regex(config as AutomodConfig<"regex">)
  const matcher = textMatcher(rule)
  if (!matcher) throw new Error(`a rule of the type ${rule_type} is about more than a text`)
  const own = rule_type === "invite_links" ? ownInvites(config as AutomodConfig<"invite_links">) : undefined
  return {
    match: (judged, steps) => matcher(judged) ?? own?.match(judged, steps) ?? null,
    steps: length => own?.steps(length) ?? 0,
  }
}

/**
 * What rules make of a text. `isOver`: asked before each rule, whether the time is up. Every rule
 * judges the text alone; what stands beside it only as far as the steps suffice.
 */
export function judgeText(
  { content, text }: Pick<Judged, "content" | "text">,
  rules: readonly CompiledRule[],
  isOver: () => boolean = () => false,
  steps = new StepBudget(limits.automod.patternStepsPerMessage),
): TextVerdict[] {
  const alone = text === undefined || text === content ? undefined : { ...noPlace, content: text }
  const judged: Judged = { ...noPlace, content, alone }
  const shorter = (alone ?? judged).content.length
  for (const rule of rules) steps.reserve(rule.steps(shorter))
  return rules.map(rule => {
    steps.release(rule.steps(shorter))
    return isOver() ? { unjudged: "late" } : rule.match(judged, steps)
  })
}
