/**
 * What the whole run has seen of the contract. Each test process notes what is new to it in a file of its own; when every
 * test file has run, whatever the contract declares and nobody provoked is a failure of the run.
 */
import { appendFileSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { events, routes } from "../../src/contract/contract.ts"
import { errors, type ErrorCode } from "../../src/contract/core/errors.ts"
import { closeCodes, opcodes, type CloseName } from "../../src/contract/core/gateway-codes.ts"
import type { Route } from "../../src/contract/core/registry.ts"

/**
 * `answers createMessage`, `fails createMessage slowmode`, `error slowmode`, `event MESSAGE_CREATE`, `sends IDENTIFY` (a client),
 * `hears HELLO`, `closes rate_limited`.
 */
type Sighting =
  | ["answers", route: string]
  | ["fails", route: string, code: ErrorCode]
  | ["error", code: ErrorCode]
  | ["event", name: string]
  | ["sends", op: string]
  | ["hears", op: string]
  | ["closes", name: string]

export class Sightings {
  readonly #file: string
  readonly #known = new Set<string>()

  constructor(folder: string) {
    this.#file = join(folder, `${process.pid}.txt`)
  }

  note(...sighting: Sighting): void {
    const line = sighting.join(" ")
    if (this.#known.has(line)) return
    this.#known.add(line)
    appendFileSync(this.#file, `${line}\n`)
  }
}

/**
 * A bug of ours has no test that provokes it on purpose, no route has an id of an unnamed kind, and a user who opens a conversation that
 * another has just opened is given that one.
 */
const unprovokable: ReadonlySet<ErrorCode> = new Set(["internal", "invalid_id", "direct_exists"])

/** What only a client says, what only a bug of ours would, and what the transport may lose on its way. */
const unprovokableCloses: ReadonlySet<CloseName> = new Set(["normal", "going_away", "unknown_error", "too_big"])

const opsOf = (side: "client" | "server") =>
  Object.entries(opcodes)
    .filter(([name, { from }]) => name !== "DISPATCH" && (from === side || from === "both"))
    .map(([name]) => name)

/** What the contract declares and no note in `folder` mentions. */
export function missingIn(folder: string): string[] {
  const seen = new Set(readdirSync(folder).flatMap(name => readFileSync(join(folder, name), "utf8").split("\n")))
  const declared = [
    ...Object.entries<Route>(routes).flatMap(([name, route]) => [
      `answers ${name}`,
      ...route.fails.map(code => `fails ${name} ${code}`),
    ]),
    ...Object.keys(errors)
      .filter(code => !unprovokable.has(code as ErrorCode))
      .map(code => `error ${code}`),
    ...Object.keys(events).map(name => `event ${name}`),
    ...opsOf("client").map(name => `sends ${name}`),
    ...opsOf("server").map(name => `hears ${name}`),
    ...Object.keys(closeCodes)
      .filter(name => !unprovokableCloses.has(name as CloseName))
      .map(name => `closes ${name}`),
  ]
  return declared.filter(line => !seen.has(line))
}
