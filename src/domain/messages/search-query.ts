import type { Snowflake } from "../../contract/core/fields.ts"
import { factOf, mayHaveStem, searchable, tokensOf, type Token } from "./search-text.ts"

/**
 * A search query parsed from the text that a user typed. Text that is no operator is a word, also
 * when it looks like one.
 */
export interface SearchQuery {
  readonly terms: readonly Term[]
  /** Names or ids as they were typed; of several one is enough. */
  readonly from: readonly string[]
  readonly in: readonly string[]
  /** All of them. */
  readonly mentions: readonly string[]
  readonly has: readonly (typeof searchable)[number][]
  readonly pinned: boolean | null
  /** Unix milliseconds: sent before it; sent at or after it. */
  readonly before: number | null
  readonly after: number | null
}

export interface Term {
  readonly tokens: readonly Token[]
  /** As it is written and in this order, rather than in any of its forms. */
  readonly isExact: boolean
  readonly isExcluded: boolean
}

const day = 86_400_000
const spans: Readonly<Record<string, number>> = { d: day, w: 7 * day, m: 30 * day, y: 365 * day }

/** @returns the beginning of the day in UTC, or the moment so long ago; Unix milliseconds */
export function momentOf(text: string, now: number): number | undefined {
  const lower = text.toLowerCase()
  const today = Math.floor(now / day) * day
  if (lower === "today") return today
  if (lower === "yesterday") return today - day
  const span = /^(\d{1,4})([dwmy])$/.exec(lower)
  if (span) return now - Number(span[1]) * spans[span[2]!]!
  if (!/^\d{4}-\d{2}-\d{2}$/.test(lower)) return undefined
  const at = Date.parse(`${lower}T00:00:00Z`)
  // The 31st of February is no day, though some would take it for a day in March.
  return Number.isNaN(at) || new Date(at).toISOString().slice(0, 10) !== lower ? undefined : at
}

const piece =
  /(-?)(?:(from|in|before|after|has|mentions|pinned):(?:"([^"]*)"|([^\s"]+))(?=\s|$)|"([^"]*)"?|([^\s"]+))/giu

export function readQuery(text: string, now: number): SearchQuery {
  const terms: Term[] = []
  const query = {
    from: [] as string[],
    in: [] as string[],
    mentions: [] as string[],
    has: [] as (typeof searchable)[number][],
    pinned: null as boolean | null,
    before: null as number | null,
    after: null as number | null,
  }
  const taken = (operator: string, value: string): boolean => {
    const name = value.replace(/^@/, "")
    if (operator === "from" || operator === "mentions") {
      const who = /^<@!?(\d+)>$/.exec(value)?.[1] ?? name
      if (who === "") return false
      query[operator].push(who)
      return true
    }
    if (operator === "in") {
      const where = /^<#(\d+)>$/.exec(value)?.[1] ?? value.replace(/^#/, "")
      if (where === "") return false
      query.in.push(where)
      return true
    }
    if (operator === "has") {
      const what = searchable.find(known => known === value.toLowerCase())
      if (what) query.has.push(what)
      return what !== undefined
    }
    if (operator === "pinned") {
      const is = value.toLowerCase()
      if (is !== "true" && is !== "false") return false
      query.pinned = is === "true"
      return true
    }
    const moment = momentOf(value, now)
    if (moment === undefined) return false
    if (operator === "before") query.before = Math.min(query.before ?? Infinity, moment)
    else query.after = Math.max(query.after ?? -Infinity, moment)
    return true
  }
  for (const [whole, minus, operator, quotedValue, value, phrase, plain] of text.matchAll(piece)) {
    if (operator !== undefined && minus === "" && taken(operator.toLowerCase(), quotedValue ?? value ?? "")) continue
    const tokens = tokensOf(phrase ?? plain ?? whole)
    if (tokens.length > 0) terms.push({ tokens, isExact: phrase !== undefined, isExcluded: minus !== "" })
  }
  return { terms, ...query }
}

/** Words of the query whose stems count as well. */
export const stemmable = ({ terms }: SearchQuery): string[] =>
  terms.flatMap(({ tokens, isExact }) =>
    isExact || tokens.length > 1 ? [] : tokens.flatMap(({ word }) => (mayHaveStem(word) ? [word] : [])),
  )

const quoted = (lexeme: string): string => `'${lexeme}'`
const any = (lexemes: Iterable<string>): string => `(${[...lexemes].map(quoted).join("|")})`

function termText({ tokens, isExact, isExcluded }: Term, stemsOf: (word: string) => readonly string[]): string {
  // The end of a run of characters is in the pair before it.
  const needed = tokens.filter(({ isLast }, i) => !isLast || !isPair(tokens[i - 1], tokens[i]!))
  const [first] = needed
  let text: string
  if (needed.length === 1 && !isExact && !first!.isLast) {
    const stems = stemsOf(first!.word)
    text = any(new Set([first!.word, ...stems, ...stems.map(factOf.stem)]))
  } else if (needed.length === 1 && first!.isLast) text = any([factOf.character(first!.word)])
  else
    text = `(${needed
      .map((token, i) => {
        const before = needed[i - 1]
        return `${before ? `<${token.place - before.place}>` : ""}${quoted(token.word)}${token.isLast ? ":*" : ""}`
      })
      .join("")})`
  return isExcluded ? `!${text}` : text
}

const isPair = (before: Token | undefined, last: Token): boolean =>
  before !== undefined &&
  !before.isLast &&
  before.place === last.place - 1 &&
  before.word.endsWith(last.word) &&
  Array.from(before.word).length === 2

/** What has to be so of a message beside where it is and when it was sent. */
export interface Facts {
  readonly authors: readonly Snowflake[] | null
  /** Of each that is to be mentioned, whom the name may mean. */
  readonly mentioned: readonly (readonly Snowflake[])[]
}

/** All that the index of words knows of a term: of a phrase its words, whatever their order. */
function looseTexts(term: Term, stemsOf: (word: string) => readonly string[]): string[] {
  const text = termText(term, stemsOf)
  if (!/<\d+>/.test(text)) return [text]
  if (term.isExcluded) return []
  return text
    .slice(1, -1)
    .replace(/'([^']+)':\*/g, (_, character: string) => quoted(factOf.character(character)))
    .split(/<\d+>/)
}

/**
 * What a message has to match, each part as PostgreSQL reads a `tsquery`; nothing: whatever it is.
 * @param isLoose what the index finds by itself; phrases have to be looked for in that
 */
export function queryParts(
  query: SearchQuery,
  { authors, mentioned }: Facts,
  stemsOf: (word: string) => readonly string[],
  isLoose = false,
): string[] {
  const parts = [
    ...query.terms.flatMap(term => (isLoose ? looseTexts : termText)(term, stemsOf)),
    ...(authors ? [any(authors.map(factOf.author))] : []),
    ...mentioned.map(ids => any(ids.map(factOf.mention))),
    ...query.has.map(what => quoted(factOf.has(what))),
    ...(query.pinned === true ? [quoted(factOf.flag("pinned"))] : []),
  ]
  // What stands there twice would count twice where it is reckoned how rare that is.
  return [...new Set(parts)]
}

/** Where somebody may read, as facts: a message has one of them. */
export const scopeFacts = (scope: {
  readonly servers: readonly Snowflake[]
  readonly channels: readonly Snowflake[]
  /** Whose conversations outside servers belong to it. */
  readonly participant: Snowflake | null
}): string[] => [
  ...scope.servers.map(factOf.server),
  ...scope.channels.map(factOf.channel),
  ...(scope.participant === null ? [] : [factOf.participant(scope.participant)]),
]
