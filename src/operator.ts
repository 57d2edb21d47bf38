/**
 * `npm run operator`: what an operator says to the service, through its database. It reads the same configuration as the
 * server, and runs beside it; where PostgreSQL is embedded the server has to be running, on this machine.
 */
import { setTimeout as sleep } from "node:timers/promises"
import { parseArgs, type ParseArgsConfig } from "node:util"
import { clusterConfig } from "../cluster.config.ts"
import { ConfigError, readConfig } from "./config.ts"
import { errors, type ErrorCode } from "./contract/errors.ts"
import { codePoints } from "./contract/fields.ts"
import { ServiceNotice } from "./contract/server-status.ts"
import { formatRange, mayBlock, mostBlocks, parseRange } from "./domain/address-blocks.ts"
import { closingSeconds, messageOf } from "./domain/server-status.ts"
import { isAway } from "./storage/database.ts"
import { runningPostgres } from "./storage/embedded.ts"
import type { OperatorAnswer } from "./storage/operator-requests.ts"
import { openStorage, type Storage } from "./storage/storage.ts"

const usage = `npm run operator -- <command>

  state                                  what state the service is in
  state running|maintenance|shutting_down|restarting
        [--message TEXT] [--downtime SECONDS] [--restart-at TIME]
  force-logout USER                      ends all sessions of a user, given by name or id
  logout-all                             ends all sessions of everybody
  block ADDRESS [--reason TEXT] [--hours N]
                                         refuses an address or a CIDR range; without --hours for ever
  unblock ADDRESS
  blocks                                 what is blocked`

const exitCodes = { done: 0, failed: 1, misused: 2 } as const
/** Milliseconds until nobody is waited for any longer. */
const patience = { force_logout: 30_000, logout_all: 120_000 } as const
const longestReason = 500

/** What the operator wrote is wrong. */
class Misuse extends Error {}
/** It cannot be done, and no stack is needed to say why. */
class Refusal extends Error {}

type Options = Record<string, string | undefined>
interface Command {
  /** Names of what follows the command. */
  readonly takes: readonly string[]
  readonly mayBeLeftOut?: boolean
  readonly options?: readonly string[]
  run(storage: Storage, given: readonly string[], options: Options): Promise<string>
}

const commands: Record<string, Command> = {
  state: {
    takes: ["STATE"],
    mayBeLeftOut: true,
    options: ["message", "downtime", "restart-at"],
    async run(storage, [state], options) {
      if (state === undefined) {
        if (Object.keys(options).length > 0) throw new Misuse("which state?")
        const facts = await storage.serverStatus.look()
        return [facts.state, messageOf(facts)].filter(Boolean).join(": ")
      }
      const asked = ServiceNotice.safeParse({
        state,
        message: options["message"],
        estimated_downtime_seconds: wholeNumber("downtime", options["downtime"]),
        restart_at: momentOf(options["restart-at"]),
      })
      if (!asked.success)
        throw new Misuse(asked.error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`).join("\n"))
      const { message = null, estimated_downtime_seconds = null, restart_at = null } = asked.data
      await storage.serverStatus.setState({ state: asked.data.state, message, estimated_downtime_seconds, restart_at })
      return consequences[asked.data.state]
    },
  },

  "force-logout": {
    takes: ["USER"],
    async run(storage, [name]) {
      // A name may be all digits.
      const byId = await findById(storage, name!)
      const byName = await storage.users.findByLogin(name!)
      const user = byId ?? byName
      if (!user) throw new Refusal(`there is no user ${name}`)
      if (byId && byName && byId.id !== byName.id)
        throw new Refusal(`${name} is the id of ${byId.username} and the name of ${byName.id}: say one of these`)
      const request = await storage.operatorRequests.forceLogout(user.id, "Security logout")
      return `${user.username}: ${await outcomeOf(storage, request, "force_logout")}`
    },
  },

  "logout-all": {
    takes: [],
    async run(storage) {
      const request = await storage.operatorRequests.logoutAll()
      console.log(
        "no session of before is accepted any longer; clients are told and closed, then the sessions are taken away",
      )
      return outcomeOf(storage, request, "logout_all")
    },
  },

  block: {
    takes: ["ADDRESS"],
    options: ["reason", "hours"],
    async run(storage, [text], { reason = null, hours }) {
      const range = parseRange(text!)
      if (!range) throw new Misuse(`${text} is no IP address and no CIDR range`)
      if (!mayBlock(range)) throw new Refusal("this machine's own addresses cannot be blocked")
      if (reason !== null && codePoints(reason) > longestReason)
        throw new Misuse(`--reason takes up to ${longestReason} characters`)
      const lasts = wholeNumber("hours", hours)
      if (lasts !== undefined && (lasts < 1 || lasts > 876_000)) throw new Misuse("--hours takes 1 to 876000")
      const address = formatRange(range)
      const isBlocked = await storage.addressBlocks.block({
        address,
        reason,
        blocked_by: null,
        lasts: lasts === undefined ? null : lasts * 3600,
      })
      if (!isBlocked) throw new Refusal(`${mostBlocks} addresses are blocked already: that is the most; use a firewall`)
      return `${address} is refused ${lasts === undefined ? "for ever" : `for ${lasts} h`}; its connections end within a second or so`
    },
  },

  unblock: {
    takes: ["ADDRESS"],
    async run(storage, [text]) {
      const range = parseRange(text!)
      if (!range) throw new Misuse(`${text} is no IP address and no CIDR range`)
      const address = formatRange(range)
      return (await storage.addressBlocks.unblock(address))
        ? `${address} is let in again`
        : `${address} was not blocked`
    },
  },

  blocks: {
    takes: [],
    async run(storage) {
      const blocks = await storage.addressBlocks.list()
      const lines = blocks.map(({ address, expires_at, reason }) =>
        [address, expires_at === null ? "for ever" : `until ${dateOf(expires_at)}`, reason].filter(Boolean).join("  "),
      )
      return lines.join("\n") || "nothing is blocked"
    },
  },
}

const consequences: Record<ServiceNotice["state"], string> = {
  running: "running: clients notice when they ask for /status",
  restarting: "restarting: connected clients are told; nothing else changes until it is set to running again",
  maintenance: `maintenance: REST answers 503, connections are told and end ${closingSeconds} s later, until it is set to running again`,
  shutting_down: `shutting_down: connections are told and end ${closingSeconds} s later, and clients do not come back by themselves`,
}

async function findById(storage: Storage, text: string) {
  const isId = /^\d{1,19}$/.test(text) && BigInt(text) <= 9_223_372_036_854_775_807n
  return isId ? storage.users.find(text) : undefined
}

function wholeNumber(option: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  if (!/^\d{1,12}$/.test(text)) throw new Misuse(`--${option} takes a whole number`)
  return Number(text)
}

/** Unix seconds or milliseconds, or a date as ISO 8601 writes it. @returns Unix seconds */
function momentOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const number = /^\d{1,14}$/.test(text) ? Number(text) : undefined
  const seconds = number === undefined ? Date.parse(text) / 1000 : number >= 1e11 ? number / 1000 : number
  if (Number.isNaN(seconds)) throw new Misuse("--restart-at takes Unix seconds or a date such as 2030-01-31T04:00Z")
  return Math.floor(seconds)
}

const dateOf = (seconds: number) => new Date(seconds * 1000).toISOString().replace(".000Z", "Z")

/** Waits for the worker that carries the request out. */
async function outcomeOf(storage: Storage, request: string, kind: keyof typeof patience): Promise<string> {
  for (const until = Date.now() + patience[kind]; ; await sleep(100)) {
    const answer = await storage.operatorRequests.answerTo(request)
    if (answer) return told(answer)
    if (Date.now() > until)
      throw new Refusal(
        `request ${request} is not finished after ${patience[kind] / 1000} s; it goes on as soon as, and as long as, a server runs`,
      )
  }
}

function told(answer: OperatorAnswer): string {
  if ("refusal" in answer) throw new Refusal(errors[answer.refusal as ErrorCode]?.message ?? answer.refusal)
  const { ended, failed = 0 } = answer
  const done = `${ended} session${ended === 1 ? "" : "s"} ended`
  if (failed > 0)
    throw new Refusal(
      `${done}; those of ${failed} user${failed === 1 ? " are" : "s are"} refused, but could not be taken away: the log of the servers says why`,
    )
  return done
}

async function main(words: string[]): Promise<string> {
  const [name = "", ...rest] = words
  const command = Object.hasOwn(commands, name) ? commands[name]! : undefined
  if (!command) throw new Misuse(name === "" ? usage : `${name} is no command\n\n${usage}`)
  const { positionals, values } = parsed(command, rest)
  const least = command.mayBeLeftOut ? 0 : command.takes.length
  if (positionals.length < least || positionals.length > command.takes.length)
    throw new Misuse(`${name} takes ${command.takes.join(" ") || "nothing"}\n\n${usage}`)

  const config = readConfig(process.env)
  const url = config.databaseUrl ?? (await runningPostgres(config.dataDir))
  const storage = openStorage({ ...clusterConfig.storage, readConnections: 1, url, name: "starling operator" })
  try {
    await storage.migrations.require()
    return await command.run(storage, positionals, values)
  } finally {
    await storage.close()
  }
}

function parsed({ options = [] }: Command, args: string[]): { positionals: string[]; values: Options } {
  const known: ParseArgsConfig["options"] = Object.fromEntries(options.map(option => [option, { type: "string" }]))
  try {
    const { positionals, values } = parseArgs({ args, options: known, allowPositionals: true })
    return { positionals, values: values as Options }
  } catch (error) {
    throw new Misuse(`${(error as Error).message}\n\n${usage}`)
  }
}

try {
  console.log(await main(process.argv.slice(2)))
  process.exitCode = exitCodes.done
} catch (error) {
  const isMisuse = error instanceof Misuse || error instanceof ConfigError
  const message = isAway(error)
    ? `the database does not answer (${(error as Error).message})`
    : (error as Error).message
  console.error(error instanceof Misuse ? message : `operator: ${message}`)
  process.exitCode = isMisuse ? exitCodes.misused : exitCodes.failed
}
