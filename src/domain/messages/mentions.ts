import { Snowflake } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"

/** Whom a text names. */
interface Mentions {
  readonly users: readonly Snowflake[]
  readonly roles: readonly Snowflake[]
  readonly everyone: boolean
  readonly here: boolean
}

/** How somebody is mentioned, the most specific first: of several only the first counts. */
export type MentionKind = "user" | "role" | "everyone" | "here"

/** What a notification of a mention is called. */
export const mentionTitles: Readonly<Record<MentionKind, string>> = {
  user: "You were mentioned",
  role: "Your role was mentioned",
  everyone: "@everyone mention",
  here: "@here mention",
}

const nobody: Mentions = { users: [], roles: [], everyone: false, here: false }

/** `@everyone` inside of a word, as in an address, is none. */
const mention = /<@(!|&)?(\d{1,19})>|(?<![\p{L}\p{N}_])@(everyone|here)(?![\p{L}\p{N}_])/gu

/**
 * `<@user>`, `<@!user>`, `<@&role>`, `@everyone` and `@here` in a text, but for what stands in
 * code: between two runs of equally many backticks. Of so many different users and roles the first
 * `mentionsPerMessage` count.
 */
export function mentionsIn(text: string): Mentions {
  if (!text.includes("@")) return nobody
  const users = new Set<Snowflake>()
  const roles = new Set<Snowflake>()
  const called = new Set<string>()
  for (const [, mark, id, everybody] of withoutCode(text).matchAll(mention)) {
    if (everybody !== undefined) called.add(everybody)
    else if (users.size + roles.size < limits.mentionsPerMessage && Snowflake.safeParse(id).success)
      (mark === "&" ? roles : users).add(id!)
  }
  return { users: [...users], roles: [...roles], everyone: called.has("everyone"), here: called.has("here") }
}

/** What stands in code becomes a blank. A run of backticks that nothing closes is text. */
function withoutCode(text: string): string {
  if (!text.includes("`")) return text
  const runs = [...text.matchAll(/`+/g)]
  /** By length, where runs of it stand: the last first. */
  const places = new Map<number, number[]>()
  for (const [run] of runs) places.set(run.length, [])
  for (const [at, [run]] of [...runs.entries()].toReversed()) places.get(run.length)!.push(at)
  let left = ""
  let end = 0
  for (let at = 0; at < runs.length; at++) {
    const { 0: run, index } = runs[at]!
    const same = places.get(run.length)!
    while (same.length > 0 && same.at(-1)! <= at) same.pop()
    const closing = same.at(-1)
    if (closing === undefined) continue
    left += `${text.slice(end, index)} `
    end = runs[closing]!.index + run.length
    at = closing
  }
  return left + text.slice(end)
}
