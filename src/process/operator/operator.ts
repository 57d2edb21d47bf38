import { existsSync } from "node:fs"
import { join } from "node:path"
import { parseArgs, type ParseArgsConfig } from "node:util"
import { clusterConfig } from "../../../cluster.config.ts"
import { ConfigError, readConfig, type Config } from "../../config.ts"
import { isDatabaseUnavailable } from "../../storage/core/database.ts"
import { runningPostgres, startEmbeddedPostgres } from "../../storage/core/embedded.ts"
import { openStorage } from "../../storage/storage.ts"
import { accessTokenCommands } from "./access-token-commands.ts"
import { backupCommands } from "./backup-commands.ts"
import { accountCommands } from "./account-commands.ts"
import { databaseCommands } from "./database-commands.ts"
import { operatorCommands } from "./operator-commands.ts"
import { importCommands } from "./import-commands.ts"
import { fileCommands } from "./file-commands.ts"
import {
  Misuse,
  Refusal,
  type Command,
  type Commands,
  type Options,
  type Saying,
  type WholeCommands,
} from "./saying.ts"
import { secretKeyCommands } from "./secret-key-commands.ts"
import { searchCommands } from "./search-commands.ts"
import { serviceCommands } from "./service-commands.ts"

const usage = `npm run operator -- <command>

  doctor [--json]                        looks at the configuration, PostgreSQL, Redis, clocks, disk and limits,
                                         and says what to do; also without a server (npm run doctor)
  top [--once] [--json]                  shows what the processes of this host do: workers, hot homes, slow sockets
  create NAME                            makes an operator, who can sign in to the operator area, and prints
                                         their password
  list                                   lists the operators
  reset NAME                             gives an operator another password, ends their sessions and lets them
                                         set up their authenticator app again
  remove NAME                            removes an operator
  state                                  prints the state of the service
  state running|maintenance|shutting_down|restarting
        [--message TEXT] [--downtime SECONDS] [--restart-at TIME]
  force-logout USER                      ends all sessions of a user, given by name or id
  logout-all                             ends all sessions of all users
  block ADDRESS [--reason TEXT] [--hours N]
                                         blocks an address or a CIDR range; without --hours permanently
  unblock ADDRESS
  blocks                                 lists the blocked addresses
  lock USER [--hours N] [--reason TEXT]  locks a user and their bots; without --hours permanently
  unlock USER                            ends a lock, also one after failed sign-ins
  rename USER [--reason TEXT]            a user must choose another name before anything else
  cancel-deletion USER                   cancels the deletion of an account
  second-factor off USER                 disables a lost second factor and its backup codes
  grant USER administrator               makes a user an administrator
  revoke-grant USER administrator
  bot create NAME --owner USER           creates a bot and prints its token
  bot token BOT                          replaces the token
  bot revoke BOT                         revokes the token; the bot stays
  bot list USER                          lists the bots of a user
  access-token create NAME [--scope ADDRESS]... [--mode none|monitor|enforce] [--days N]
                [--token-stdin]          creates a token that applications must send from now on,
                                         or reads it from standard input: 32 to 128 of A-Z a-z 0-9 . _ ~ -
  access-token revoke ID
  access-token list
  files block HASH [--reason TEXT]       blocks a file by its SHA-256, or pictures by their perceptual hash: it can
                                         no longer be uploaded and is no longer served
  files unblock HASH
  files blocked                          lists the blocked files
  files missing                          lists files that the store has lost
  uploads block USER [--hours N] [--reason TEXT]
                                         keeps a user from uploading files; without --hours permanently
  uploads unblock USER
  uploads blocked                        lists the users who cannot upload files
  search rebuild                         rebuilds the search index while servers run; if interrupted,
                                         it continues where it stopped
  files move                             copies all files from FILES_FALLBACK_URL to where the configuration
                                         keeps them, while servers run, and reads every byte back; if
                                         interrupted, run it again
  import slack|mattermost|discord FILE [--owner USER] [--name NAME] [--private] [--directs] [--hide CHANNEL]...
                [--fetch] [--dry-run] [--strict] [--keep-open] [--origin NAME]
                                         brings in an export, while servers run; if interrupted, run it again
                                         (docs/operate/import.md)
  import list                            lists the imports
  import unclaimed                       lists the accounts of imports that nobody has made theirs
  import claim USER [--days N]           prints a link with which a person makes such an account theirs
  backup FILE [--without-key] [--without-files] [--full-speed]
                                         writes the database, the files and the secret key into a new file, while
                                         servers run
  restore FILE [--without-files]         writes a backup into an empty database and to where files are kept,
                                         while no server runs
  database upgrade --programs DIR        moves the embedded PostgreSQL's data to the version that this program
                                         brings, while no server runs; DIR has the programs of the one before
  secret-key forget                      if the key is lost and no server runs: the next server sets
                                         a new key, and users must set up their second factor again`

const exitCodes = { done: 0, failed: 1, misused: 2 } as const

/** Milliseconds of one statement that may concern every account, where nobody waits for the tables. */
const timeoutMs = 600_000
const silent = { info() {}, warn() {}, error() {} }

type Env = Record<string, string | undefined>

const commands: Commands = {
  ...operatorCommands,
  ...serviceCommands,
  ...accountCommands,
  ...accessTokenCommands,
  ...fileCommands,
  ...searchCommands,
  ...importCommands,
  ...secretKeyCommands,
}

const wholeCommands: WholeCommands = { ...backupCommands, ...databaseCommands }

/** Does what an operator says. @returns the exit code, and what is printed: what came of it, or what is wrong */
export async function operator(
  words: readonly string[],
  env: Env,
  input: AsyncIterable<Buffer | string> = process.stdin,
): Promise<{ code: number; out: string; said: string }> {
  try {
    return { code: exitCodes.done, out: await obey(words, env, input), said: "" }
  } catch (error) {
    const isMisuse = error instanceof Misuse || error instanceof ConfigError
    const message = isDatabaseUnavailable(error)
      ? `the database does not respond (${(error as Error).message})`
      : (error as Error).message
    return {
      code: isMisuse ? exitCodes.misused : exitCodes.failed,
      out: "",
      said: error instanceof Misuse ? message : `operator: ${message}`,
    }
  }
}

async function obey(words: readonly string[], env: Env, input: AsyncIterable<Buffer | string>): Promise<string> {
  const two = words.slice(0, 2).join(" ")
  const name = Object.hasOwn(commands, two) || Object.hasOwn(wholeCommands, two) ? two : (words[0] ?? "")
  const rest = words.slice(name === two ? 2 : 1)
  const whole = Object.hasOwn(wholeCommands, name) ? wholeCommands[name]! : undefined
  const command = whole ?? (Object.hasOwn(commands, name) ? commands[name]! : undefined)
  if (!command) throw new Misuse(name === "" ? usage : `${name} is not a command\n\n${usage}`)
  const { positionals, options, lists, flags } = parsed(command, rest)
  const least = command.mayBeLeftOut ? 0 : command.takes.length
  if (positionals.length < least || positionals.length > command.takes.length)
    throw new Misuse(`${name} takes ${command.takes.join(" ") || "nothing"}\n\n${usage}`)

  const config = readConfig(env)
  if (whole) return whole.run({ config, given: positionals, options, flags })
  return obeyInDatabase(commands[name]!, config, {
    given: positionals,
    options,
    lists,
    flags,
    input: () => textOf(input),
  })
}

async function obeyInDatabase(
  command: Command,
  config: Config,
  said: Pick<Saying, "given" | "options" | "lists" | "flags" | "input">,
): Promise<string> {
  const database = await databaseOf(config, command.isForStopped === true)
  const storage = openStorage({
    ...clusterConfig.commandStorage,
    ...(command.isForStopped && { statementTimeoutMs: timeoutMs }),
    url: database.url,
    name: "starling operator",
  })
  try {
    await storage.migrations.require()
    return await command.run({
      ...said,
      storage,
      policy: config.policy,
      files: config.files,
      publicUrl: config.publicUrl,
    })
  } finally {
    await storage.close()
    await database.stop?.()
  }
}

/** Where it is, and how to end it if nobody else has started it. */
async function databaseOf(
  { databaseUrl, dataDir }: Config,
  isForStopped: boolean,
): Promise<{ url: string; stop?: () => Promise<void> }> {
  if (databaseUrl !== undefined) return { url: databaseUrl }
  if (!isForStopped) return { url: await runningPostgres(dataDir) }
  if (!existsSync(join(dataDir, "postgres")))
    throw new Refusal(`${dataDir}: no PostgreSQL found. Set DATA_DIR or DATABASE_URL as for the server`)
  return startEmbeddedPostgres({ dataDir, log: silent })
}

async function textOf(input: AsyncIterable<Buffer | string>): Promise<string> {
  let text = ""
  for await (const piece of input) text += piece.toString()
  return text
}

function parsed(
  command: Pick<Command, "options" | "lists" | "flags">,
  args: string[],
): Pick<Saying, "options" | "lists" | "flags"> & { positionals: string[] } {
  const { options = [], lists = [], flags = [] } = command
  const known: ParseArgsConfig["options"] = Object.fromEntries([
    ...options.map(option => [option, { type: "string" }]),
    ...lists.map(option => [option, { type: "string", multiple: true }]),
    ...flags.map(option => [option, { type: "boolean" }]),
  ])
  try {
    const { positionals, values } = parseArgs({ args, options: known, allowPositionals: true })
    const given = Object.entries(values)
    const those = (names: readonly string[]) => Object.fromEntries(given.filter(([name]) => names.includes(name)))
    return {
      positionals,
      options: those(options) as Options,
      lists: those(lists) as Saying["lists"],
      flags: new Set(Object.keys(those(flags))),
    }
  } catch (error) {
    throw new Misuse(`${(error as Error).message}\n\n${usage}`)
  }
}
