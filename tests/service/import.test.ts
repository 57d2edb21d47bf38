/** `npm run operator -- import`: exports of other products, beside servers that run. */
import { spawn } from "node:child_process"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { onTestFinished } from "vitest"
import { routes } from "../../src/contract/contract.ts"
import { operator } from "../../src/process/operator/operator.ts"
import { refusal } from "../kit/conformance.ts"
import { send } from "../kit/exchange.ts"
import {
  attachedFile,
  discordFiles,
  mattermostFiles,
  slackCrowd,
  slackFiles,
  slackLongText,
  writeFolder,
  zipOfFiles,
  type Packed,
} from "../kit/exports.ts"
import { attentive } from "../kit/operator.ts"
import { clientAt, type Starling } from "../kit/person.ts"
import { expect, testWith, type SharedCluster } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const test = testWith({ jobWorkers: 1, topology: attentive })

async function folder(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), "starling-import-"))
  onTestFinished(() => rm(path, { recursive: true, force: true }))
  return path
}

async function archive(files: readonly Packed[]): Promise<string> {
  const path = join(await folder(), "export.zip")
  await writeFile(path, zipOfFiles(files))
  return path
}

const envOf = (shared: SharedCluster) => ({ DATABASE_URL: shared.databaseUrl, DATA_DIR: shared.dataDir })

/** As an operator types it. */
async function obeyed(shared: SharedCluster, ...words: string[]): Promise<string> {
  const { code, out, said } = await operator(words, envOf(shared))
  expect([code, said]).toEqual([0, ""])
  return out
}

/** Makes an account that was imported somebody's, and signs in. */
async function claimed(shared: SharedCluster, username: string): Promise<Starling> {
  const token = (await obeyed(shared, "import", "claim", username)).split("#").at(-1)!
  const anybody = clientAt(shared.west)
  const password = "Another-Horse-9"
  await anybody.confirmPasswordReset({ token, new_password: password })
  const { token: session } = await anybody.login({ username, password })
  return clientAt(shared.east, session!)
}

const channelIn = async (rest: Starling, server_id: string, name: string) => {
  const found = (await rest.listChannels({ server_id })).find(channel => channel.name === name)
  if (!found) throw new Error(`no channel ${name}`)
  return found
}

/** Oldest first. */
const historyOf = async (rest: Starling, channel_id: string) =>
  (await rest.listMessages({ channel_id, limit: "100" })).toReversed()

async function bytesOf(shared: SharedCluster, url: string): Promise<Buffer> {
  const { bytes } = await send(shared.west, url, { route: routes.getAttachment })
  return Buffer.from(bytes)
}

test("a workspace of Slack comes with all that it had, and people make their accounts theirs", async ({ shared }) => {
  const path = await archive(await slackFiles())
  const words = ["import", "slack", path, "--name", "Guillemot", "--private", "--directs", "--fetch"]
  const dry = await obeyed(shared, ...words, "--dry-run")
  expect(dry).toContain("nothing was written")
  expect(dry).toMatch(/ 14 {2}messages/)
  const report = await obeyed(shared, ...words)
  const server_id = /Servers: (\d+)/.exec(report)![1]!
  expect(report).toMatch(/ 14 {2}messages\n/)
  expect(report).toContain("old-news/2016-03-04.json:3")
  expect(report).toContain("system messages (channel_join)")
  expect(report).toContain("files that could not be fetched: 127.0.0.1 leads into a private network")
  expect(report).not.toContain("xoxe")

  const ada = await claimed(shared, "ada")
  const me = await ada.getMe()
  const members = await ada.listMembers({ server_id })
  const named = new Map(members.map(({ username, nickname }) => [username, nickname]))
  expect(named).toEqual(new Map([["ada", "ada ✨"], ["lin_chen", "lin.chen ✨"], ["mei", "mei ✨"]])) // prettier-ignore
  const lin_id = members.find(({ username }) => username === "lin_chen")!.user_id
  expect(await ada.getServer({ server_id })).toMatchObject({ name: "Guillemot", owner_id: me.id, member_count: 3 })

  const general = await channelIn(ada, server_id, "general")
  expect(general).toMatchObject({ topic: "About general", created_at: Date.parse("2016-03-01T12:00:00Z") / 1000 })
  const old = await channelIn(ada, server_id, "old-news")
  const history = await historyOf(ada, general.id)
  const [root, gone, reply, files, ci, weather, ...rest] = history
  expect(root).toMatchObject({
    author_id: me.id,
    content: `Hello **all** of <@${lin_id}> & <#${old.id}>, see [the table](https://tide.example/a_b_c) 🎉`,
    created_at: 1_457_000_000,
    edited_at: 1_457_000_050,
    pinned: true,
  })
  expect(root!.reactions).toMatchObject([
    { emoji: "👍", count: 2, me: false },
    { emoji: ":gull:", count: 1, me: true },
  ])
  expect(gone).toMatchObject({ content: "Said before I left", author_username: "gone", created_at: 1_457_000_000 })
  expect(reply).toMatchObject({ content: "a reply", reply_to_id: root!.id, author_id: lin_id })
  expect(files!.attachments.map(({ filename, content_type }) => [filename, content_type])).toEqual([
    ["tides.txt", "text/plain"],
    ["gull.png", "image/png"],
  ])
  expect(files!.content).toBe("*[elsewhere.pdf: not imported]*")
  expect(await bytesOf(shared, files!.attachments[0]!.url)).toEqual(attachedFile)
  expect(ci).toMatchObject({ author_username: "CI", content: "deployed `main` & [build 7](https://ci.example)" })
  expect(weather).toMatchObject({
    author_username: "Weather",
    content: "Storm\n> [Bight](https://wx.example)\n> 9 bft",
  })
  const late = rest.pop()!
  expect(late).toMatchObject({ reply_to_id: root!.id, created_at: 1_736_073_600 })
  expect(rest.length).toBeGreaterThan(2)
  expect(rest.map(({ content }) => content).join("\n")).toBe(slackLongText)
  expect(new Set(rest.map(({ created_at }) => created_at))).toEqual(new Set([1_457_000_040]))
  expect((await ada.listPins({ channel_id: general.id })).map(({ id }) => id)).toEqual([root!.id])
  expect((await historyOf(ada, old.id)).map(({ content }) => content)).toEqual(["before", "after"])
  await until("what was imported is found, by its time as well", async () => {
    const hits = await ada.searchMessages({ query: "left before:2017-01-01 after:2016-01-01", server_id })
    return hits.results.length === 1 && hits.results[0]!.id === gone!.id
  }, { timeoutMs: 20_000 }) // prettier-ignore

  // What was for some is for them; what was said before is nobody's unread.
  const mei = await claimed(shared, "mei")
  expect((await mei.listChannels({ server_id })).map(({ name }) => name).toSorted()).toEqual(
    ["Group messages", "ada-lin.chen-mei", "general", "old-news"].toSorted(),
  )
  const secret = await channelIn(ada, server_id, "secret")
  expect(await refusal(mei.listMessages({ channel_id: secret.id }))).toBe("access_denied")
  expect((await historyOf(ada, secret.id)).map(({ content }) => content)).toEqual(["only for two"])
  const [dm] = await ada.listDirectChannels({})
  expect((await historyOf(ada, dm!.id)).map(({ content }) => content)).toEqual(["psst", "yes?"])
  // It is a server like any other from here on.
  const sent = await mei.createMessage({ channel_id: general.id, content: "new here", reply_to_id: root!.id })
  expect((await historyOf(ada, general.id)).at(-1)).toMatchObject({ id: sent.id, reply_to_id: root!.id })
  await ada.deleteMessage({ channel_id: general.id, message_id: late.id })

  // An account is claimed once, and only one that came with an import.
  for (const name of ["ada", (await shared.person("noor")).username])
    expect(await operator(["import", "claim", name], envOf(shared))).toMatchObject({ code: 1 })
  expect(await obeyed(shared, "import", "unclaimed")).toContain("lin.chen@guillemot.example")

  const count = async () =>
    (await shared.sql`SELECT count(*)::int AS n FROM messages WHERE server_id = ${server_id}`)[0]!
  const before = await count()
  expect(await obeyed(shared, ...words)).toContain("nothing more is written into it")
  expect(await count()).toEqual(before)
  expect(await obeyed(shared, "import", "list")).toMatch(/^slack {2}slack .* finished .* 4 users, 2 unclaimed$/)
})

test("a team of Mattermost comes with its emoji, files and replies", async ({ shared }) => {
  const report = await obeyed(
    shared,
    "import",
    "mattermost",
    await archive(await mattermostFiles()),
    "--private",
    "--directs",
  )
  expect(report).toContain("import.jsonl:15")
  const server_id = /Servers: (\d+)/.exec(report)![1]!
  const olu = await claimed(shared, "olu")
  const tova = await claimed(shared, "tova")
  const square = await channelIn(olu, server_id, "HARBOUR")
  const [emoji] = await olu.listEmojis({ server_id })
  const tova_id = (await tova.getMe()).id
  const [first, root, reply] = await historyOf(tova, square.id)
  expect(first).toMatchObject({ content: "first of all", author_username: "left" })
  expect(root).toMatchObject({
    content: `Hi <@${tova_id}>, see <#${square.id}>. **Bold** <:limpet:${emoji!.id}> \`@tova\``,
    created_at: Math.floor(Date.parse("2021-04-05T06:07:08.900Z") / 1000),
    edited_at: Math.floor(Date.parse("2021-04-05T06:08:08.900Z") / 1000),
    pinned: true,
  })
  expect(root!.reactions).toMatchObject([
    { custom_emoji_id: emoji!.id, me: true, count: 1 },
    { emoji: "❤️", me: false },
  ])
  expect(reply).toMatchObject({ content: "hello", reply_to_id: root!.id })
  expect((await bytesOf(shared, reply!.attachments[0]!.url)).toString()).toBe("reef")
  expect((await tova.listChannels({ server_id })).map(({ name }) => name)).toEqual(["HARBOUR"])
  expect((await historyOf(olu, (await channelIn(olu, server_id, "CREW")).id)).map(({ content }) => content)).toEqual([
    "crew only",
  ])
  const [dm] = await tova.listDirectChannels({})
  expect((await historyOf(olu, dm!.id)).map(({ content }) => content)).toEqual(["just us"])
})

test("a guild of Discord comes from files of its channels, with threads in them", async ({ shared }) => {
  const path = await folder()
  await writeFolder(path, await discordFiles())
  expect(await operator(["import", "discord", path], envOf(shared))).toMatchObject({
    code: 1,
    said: expect.stringContaining("--owner") as string,
  })
  const owner = await shared.person("ida")
  const report = await obeyed(shared, "import", "discord", path, "--owner", owner.username, "--hide", "stores")
  const server_id = /Servers: (\d+)/.exec(report)![1]!
  const ines = await claimed(shared, "ines")
  const rest = owner.on(shared.west)
  const lamp = await channelIn(rest, server_id, "lamp")
  const stores = await channelIn(rest, server_id, "stores")
  expect((await ines.listChannels({ server_id })).map(({ name }) => name)).toEqual(["Watch", "lamp"])
  const roles = await rest.listRoles({ server_id })
  const keepers = roles.find(({ name }) => name === "Keepers")!
  expect(keepers.color.toLowerCase()).toBe("#22aa55")
  const members = await rest.listMembers({ server_id })
  const bo = members.find(({ username }) => username === "user_bo")!.user_id
  expect(members.find(({ username }) => username === "ines")!.roles).toContain(keepers.id)
  const [emoji] = await rest.listEmojis({ server_id })
  const [lit, aye, fog, short, answer] = await historyOf(ines, lamp.id)
  expect(lit).toMatchObject({
    content: `Lit, <@${bo}> <#${stores.id}> <:wick:${emoji!.id}>`,
    created_at: Math.floor(Date.parse("2018-11-05T18:00:00Z") / 1000),
    edited_at: Date.parse("2018-11-05T18:05:00Z") / 1000,
    pinned: true,
  })
  expect(lit!.reactions).toMatchObject([
    { emoji: "🔥", count: 1 },
    { custom_emoji_id: emoji!.id, count: 2 },
  ])
  expect((await bytesOf(shared, lit!.attachments[0]!.url)).toString()).toBe("log")
  expect(aye).toMatchObject({ content: "aye", reply_to_id: lit!.id })
  expect(fog).toMatchObject({ author_username: "Fog", content: "> [Fog](https://fog.example)\n> 200 m" })
  expect(short).toMatchObject({ content: "**trimming**\nhow short?", reply_to_id: aye!.id })
  expect(answer).toMatchObject({ content: "short", reply_to_id: short!.id })
})

test("IMP1, IMP2: an import that is killed goes on, and what comes of it is the same", async ({ shared }) => {
  const path = await archive(await slackFiles(slackCrowd(6_000, 7)))
  const words = (origin: string) => ["import", "slack", path, "--origin", origin]
  const said = async (origin: string) =>
    shared.sql`
      SELECT c.name, regexp_replace(m.content, '\\d{15,}', 'id', 'g') AS content, m.id >> 22 AS ms, u.username IS NOT NULL AS by_user, regexp_replace(r.content, '\\d{15,}', 'id', 'g') AS answers, m.reactions::text AS reactions
      FROM imports i JOIN import_items s ON s.import_id = i.id AND s.kind = 'server' JOIN channels c ON c.server_id = s.own_id
        JOIN messages m ON m.channel_id = c.id LEFT JOIN users u ON u.id = m.author_id
        LEFT JOIN messages r ON r.channel_id = m.channel_id AND r.id = m.reply_to_id
      WHERE i.origin = ${origin} ORDER BY c.name, m.id`
  const program = fileURLToPath(new URL("../../src/operator.ts", import.meta.url))
  const killed = spawn(process.execPath, ["--import", "tsx", program, ...words("cut")], {
    env: { PATH: process.env["PATH"], ...envOf(shared) },
    stdio: "ignore",
  })
  const ended = new Promise(resolve => killed.on("exit", (_, signal) => resolve(signal)))
  await until("some of it is there", async () => (await said("cut")).length >= 1_000, { timeoutMs: 60_000 })
  killed.kill("SIGKILL")
  expect(await ended).toBe("SIGKILL")
  const half = (await said("cut")).length
  expect(half).toBeLessThan(6_000)
  const report = await obeyed(shared, ...words("cut"))
  expect(Number(/(\d+) {2}messages that were there already/.exec(report)![1])).toBeGreaterThanOrEqual(1_000)
  await obeyed(shared, ...words("whole"))
  const [cut, whole] = [await said("cut"), await said("whole")]
  expect(cut.length).toBeGreaterThan(6_000)
  expect([...cut]).toEqual([...whole])
  const [twice] = await shared.sql`
    SELECT count(*)::int - count(DISTINCT own_id)::int AS n FROM import_items WHERE kind = 'message' GROUP BY import_id`
  expect(twice!["n"]).toBe(0)
}, 120_000)

test("ARC1, ARC2: a hostile archive is refused as a whole, and nothing of it is written", async ({ shared }) => {
  const good = await slackFiles()
  const bomb = Buffer.alloc(3_000_000)
  const hostile: [string, readonly Packed[]][] = [
    ["names a file", [...good, { name: "../../etc/cron.d/x", content: "x" }]],
    ["names a file", [...good, { name: "general/a\u0000.json", content: "[]" }]],
    ["refused", [...good, { name: "/etc/passwd", content: "x" }]],
    ["two files", [...good, { name: "users.json", content: "[]" }]],
    ["claims", [...good, { name: "big.json", content: bomb, saysBytes: 4_000_000_000 }]],
  ]
  const rows = async () => (await shared.sql`SELECT count(*)::int AS n FROM imports`)[0]!["n"] as number
  const before = await rows()
  for (const [why, files] of hostile) {
    const { code, said } = await operator(["import", "slack", await archive(files), "--origin", "x"], envOf(shared))
    expect([code, said]).toEqual([1, expect.stringMatching(new RegExp(`${why}|invalid|refused`))])
  }
  const cut = join(await folder(), "cut.zip")
  await writeFile(cut, zipOfFiles(good).subarray(0, 3_000))
  expect(await operator(["import", "slack", cut], envOf(shared))).toMatchObject({ code: 1 })
  // A file that holds more than it says gives no more, and is reported.
  const liar = await archive([
    ...good,
    { name: "general/2016-03-09.json", content: `[${" ".repeat(50_000)}]`, saysBytes: 20_000 },
  ])
  expect(await obeyed(shared, "import", "slack", liar, "--dry-run")).toContain("general/2016-03-09.json is damaged")
  expect(await operator(["import", "slack", liar, "--dry-run", "--strict"], envOf(shared))).toMatchObject({ code: 1 })
  expect(await rows()).toBe(before)
})
