import { createUsernameRules } from "../../http/accounts/username-rules.ts"
import { hashSecret, newSecret } from "../../cluster/tokens.ts"
import { tokenText } from "../../cluster/one-time-tokens.ts"
import { OutboundRequests } from "../../integrations/outbound-requests.ts"
import { linkOf } from "../../workers/mail-texts.ts"
import { openBlobs } from "../../storage/core/open-blobs.ts"
import { obeyed } from "./account-commands.ts"
import { openArchive, type Archive } from "./imports/archive.ts"
import { discordSource } from "./imports/discord.ts"
import { importExport, look } from "./imports/import-run.ts"
import { mattermostSource } from "./imports/mattermost.ts"
import type { Source, SourceOptions } from "./imports/records.ts"
import { Report } from "./imports/report.ts"
import { slackSource } from "./imports/slack.ts"
import { dateOf, Misuse, Refusal, userCalled, within, type Command, type Commands, type Saying } from "./saying.ts"

const secondsPerLine = 5
const usualDays = 7
const maxListed = 10_000

const sources = { slack: slackSource, mattermost: mattermostSource, discord: discordSource } as const
type Format = keyof typeof sources

const importOf = (format: Format): Command => ({
  takes: ["FILE"],
  options: ["owner", "name", "origin"],
  lists: ["hide"],
  flags: ["private", "directs", "fetch", "dry-run", "strict", "keep-open"],
  run: saying => importFrom(format, saying),
})

/** Exports of other products, and whose the accounts become that came with them. */
export const importCommands: Commands = {
  "import slack": importOf("slack"),
  "import mattermost": importOf("mattermost"),
  "import discord": importOf("discord"),

  "import list": {
    takes: [],
    async run({ storage }) {
      const lines = (await storage.imports.list()).map(one =>
        [
          one.format,
          one.origin,
          `begun ${dateOf(one.began_at)}`,
          one.finished_at === null ? "not finished" : `finished ${dateOf(one.finished_at)}`,
          `${one.users} users, ${one.unclaimed} unclaimed`,
        ].join("  "),
      )
      return lines.join("\n") || "nothing was imported"
    },
  },

  "import unclaimed": {
    takes: [],
    async run({ storage }) {
      const found = await storage.imports.unclaimed("0", maxListed)
      const lines = found.map(({ id, username, nickname, email }) =>
        [id, username, nickname ?? "", email ?? "no address"].join("  "),
      )
      return lines.join("\n") || "nobody is unclaimed"
    },
  },

  "import claim": {
    takes: ["USER"],
    options: ["days"],
    async run({ storage, given: [name], options: { days }, publicUrl }) {
      const lastsDays = within("days", days, 30) ?? usualDays
      const user = await userCalled(storage, name!)
      if (!(await storage.imports.isUnclaimed(user.id)))
        throw new Refusal(`${user.username} did not come with an import, or is somebody's already`)
      const secret = newSecret()
      const expires_at = Math.floor(Date.now() / 1000) + lastsDays * 86_400
      const { token_id } = await obeyed(storage, user, "startClaim", { token_hash: hashSecret(secret), expires_at })
      if (typeof token_id !== "string") throw new Refusal(`${user.username} is somebody's already`)
      const link = linkOf(publicUrl, "password_reset", tokenText("password_reset", token_id, secret))
      return `who opens this link chooses the password of ${user.username}. It works once, until ${dateOf(expires_at)}:\n${link}`
    },
  },
}

async function importFrom(format: Format, saying: Saying): Promise<string> {
  const { storage, given, options, lists, flags } = saying
  const owner = options["owner"] === undefined ? undefined : await userCalled(storage, options["owner"])
  if (owner?.bot) throw new Misuse(`${owner.username} is a bot, and owns no server`)
  if (options["origin"] !== undefined && !/^[\w.-]{1,100}$/.test(options["origin"]))
    throw new Misuse("--origin takes up to 100 letters, digits and . _ -")
  const archive = await openArchive(given[0]!)
  const report = new Report(flags.has("strict"))
  const sourceOptions: SourceOptions = {
    hasPrivate: flags.has("private"),
    hasDirects: flags.has("directs"),
    hidden: new Set(lists["hide"]),
    name: options["name"],
    origin: options["origin"],
  }
  try {
    const source = sources[format](archive, sourceOptions, report)
    if (flags.has("dry-run")) {
      await look({ source, report, progress: progressOf(report) }, archive)
      const known = await storage.imports.find(format, source.origin)
      const note = known ? "it was begun before: what is there comes no second time\n" : ""
      return `${note}nothing was written. It would bring:\n${report.text()}`
    }
    return await imported(format, saying, { archive, source, report, owner: owner?.id })
  } finally {
    archive.close()
  }
}

interface Imported {
  readonly archive: Archive
  readonly source: Source
  readonly report: Report
  readonly owner: string | undefined
}

async function imported(format: Format, saying: Saying, { archive, source, report, owner }: Imported): Promise<string> {
  const { storage, flags, policy, files, given } = saying
  const entry = {
    operator: undefined,
    action: `command line: import ${format}`,
    target: given[0],
    input: "{}",
    address: "",
  }
  const noted = await storage.operatorTrail.begin(entry)
  const { refusal } = await createUsernameRules(policy, storage.bannedUsernames)()
  const steps = storage.openImport()
  const blobs = openBlobs(files, { log: { info() {}, warn: (fields, what) => console.error(what, fields) } })
  const outbound = flags.has("fetch") ? new OutboundRequests({ mayBePrivate: false, maxSockets: 4 }) : undefined
  const ended = (outcome: number, error?: string) => storage.operatorTrail.end(noted, { outcome, error, result: "{}" })
  try {
    const servers = await importExport({
      storage,
      steps,
      blobs,
      archive,
      source,
      format,
      report,
      refusesName: name => refusal(name) !== undefined,
      owner,
      outbound,
      isKeptOpen: flags.has("keep-open"),
      progress: progressOf(report),
    })
    await ended(200)
    if (servers === undefined)
      return `the import of ${source.origin} is finished: nothing more is written into it. Another origin is named with --origin`
    const state = flags.has("keep-open")
      ? "is not finished: nobody sees it yet"
      : "is finished. Who is connected sees it after reloading"
    return `the import ${state}. Servers: ${servers.join(", ")}\n${report.text()}`
  } catch (error) {
    await ended(500, (error as Error).message).catch(() => {})
    if (report.text() === "") throw error
    throw new Refusal(
      `${(error as Error).message}\nIt goes on from there when it is run again. So far:\n${report.text()}`,
      {
        cause: error,
      },
    )
  } finally {
    outbound?.close()
    blobs.close()
    await steps.close()
  }
}

/** A line every few seconds. */
function progressOf(report: Report): () => void {
  let saidAt = performance.now()
  return () => {
    if (performance.now() < saidAt + secondsPerLine * 1000) return
    saidAt = performance.now()
    const [there, messages, files] = ["messages that were there already", "messages", "files"].map(what =>
      report.counted(what),
    )
    console.error(`${messages} messages, ${files} files${there! > 0 ? `, ${there} messages were there already` : ""}`)
  }
}
