import type { Config, Policy } from "../../config.ts"
import { codePoints } from "../../contract/core/fields.ts"
import type { Storage } from "../../storage/storage.ts"
import type { UserRow } from "../../storage/accounts/users.ts"

/** What the operator wrote is wrong. */
export class Misuse extends Error {}
/** It cannot be done, and no stack is needed to say why. */
export class Refusal extends Error {}

export type Options = Record<string, string | undefined>
export interface Saying {
  readonly storage: Storage
  readonly given: readonly string[]
  readonly options: Options
  /** Of options that may be given several times. */
  readonly lists: Readonly<Record<string, readonly string[] | undefined>>
  /** Those of the command's `flags` that were given. */
  readonly flags: ReadonlySet<string>
  /** All of the standard input, for what is to stand in no list of processes and no shell's history. */
  readonly input: () => Promise<string>
  readonly policy: Policy
  readonly files: Config["files"]
  readonly publicUrl: string
}
export interface Command {
  /** Names of what follows the command. */
  readonly takes: readonly string[]
  readonly mayBeLeftOut?: boolean
  readonly options?: readonly string[]
  readonly lists?: readonly string[]
  readonly flags?: readonly string[]
  /** It is for a service that does not run: an embedded PostgreSQL is started for it. */
  readonly isForStopped?: boolean
  run(saying: Saying): Promise<string>
}

export type Commands = Record<string, Command>

/** One that does not presuppose a database, or ends with one. */
export interface WholeCommand extends Omit<Command, "run" | "isForStopped"> {
  run(saying: {
    readonly config: Config
    readonly given: readonly string[]
    readonly flags: ReadonlySet<string>
    readonly options: Options
  }): Promise<string>
}
export type WholeCommands = Record<string, WholeCommand>

const longestReason = 500

export const isBigint = (text: string) => /^\d{1,19}$/.test(text) && BigInt(text) <= 9_223_372_036_854_775_807n

/** By id, name or e-mail address. */
export async function userCalled(storage: Storage, text: string): Promise<UserRow> {
  // A name may be all digits.
  const byId = isBigint(text) ? await storage.users.find(text) : undefined
  const byName = await storage.users.findByLogin(text)
  const user = byId ?? byName
  if (!user) throw new Refusal(`no such user: ${text}`)
  if (byId && byName && byId.id !== byName.id)
    throw new Refusal(`${text} is the id of ${byId.username} and the name of ${byName.id}. Use one of them`)
  return user
}

export function requireReason(reason: string | null): void {
  if (reason !== null && codePoints(reason) > longestReason)
    throw new Misuse(`--reason takes up to ${longestReason} characters`)
}

export function within(option: string, text: string | undefined, most: number): number | undefined {
  const number = wholeNumber(option, text)
  if (number !== undefined && (number < 1 || number > most)) throw new Misuse(`--${option} takes 1 to ${most}`)
  return number
}

export function wholeNumber(option: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  if (!/^\d{1,12}$/.test(text)) throw new Misuse(`--${option} takes a whole number`)
  return Number(text)
}

export const dateOf = (seconds: number) => new Date(seconds * 1000).toISOString().replace(".000Z", "Z")
