/** What a thief of the database, of Redis or of the logs finds: no secret that opens anything. */
import { Redis } from "ioredis"
import { generateSync } from "otplib"
import { afterAll } from "vitest"
import { hashSecret, newSecret } from "../../src/cluster/tokens.ts"
import { newOperator } from "../kit/area.ts"
import { Mailbox } from "../kit/mailbox.ts"
import { attentive, operatorOf } from "../kit/operator.ts"
import { clientAt } from "../kit/person.ts"
import { expect, testWith, type SharedCluster } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const mailbox = await Mailbox.open()
afterAll(() => mailbox.stop())
const redirect = "https://chat.example/back"
const test = testWith({
  topology: attentive,
  config: {
    STARLING_OAUTH_REDIRECT_URIS: redirect,
    STARLING_OAUTH_GITHUB_CLIENT_ID: "starling",
    STARLING_OAUTH_GITHUB_CLIENT_SECRET: "secret of the provider",
  },
})

/** Every row of every table, as text. */
async function dump({ sql }: SharedCluster): Promise<string> {
  const tables = await sql<{ name: string }[]>`
    SELECT format('%I', tablename) AS name FROM pg_tables WHERE schemaname = 'public' ORDER BY 1`
  const rows = await Promise.all(
    tables.map(({ name }) => sql.unsafe<{ row: string }[]>(`SELECT t::text AS row FROM ${name} t`)),
  )
  return rows.flatMap((list, i) => list.map(({ row }) => `${tables[i]!.name} ${row}`)).join("\n")
}

/** Every value of Redis, whatever it is made of. */
async function remembered({ redisUrl, redisPrefix }: SharedCluster): Promise<string> {
  // It may take its time: what every test of the run has put there is looked through.
  const redis = new Redis(redisUrl, { lazyConnect: true })
  await redis.connect()
  try {
    const keys: string[] = []
    const found = redis.scanStream({ match: `*${redisPrefix.replace(":", "")}*`, count: 1_000 })
    for await (const page of found) keys.push(...(page as string[]))
    const texts = await Promise.all(
      keys.map(async key => {
        const kind = await redis.type(key)
        if (kind === "string") return `${key} ${await redis.get(key)}`
        if (kind === "hash") return `${key} ${JSON.stringify(await redis.hgetall(key))}`
        if (kind === "stream") return `${key} ${JSON.stringify(await redis.xrange(key, "-", "+"))}`
        if (kind === "zset") return `${key} ${JSON.stringify(await redis.zrange(key, "0", "-1"))}`
        if (kind === "set") return `${key} ${JSON.stringify(await redis.smembers(key))}`
        return `${key} ${JSON.stringify(await redis.lrange(key, "0", "-1"))}`
      }),
    )
    return texts.join("\n")
  } finally {
    redis.disconnect()
  }
}

test("neither the database nor Redis holds a password, a token, a code or a link that works", async ({ shared }) => {
  await shared.bootJobWorker({ config: { SMTP_URL: mailbox.url, STARLING_MAIL_FROM: "starling@chat.example" } })
  const operator = operatorOf(shared)
  const ada = await shared.person("ada")
  const rest = ada.on(shared.east)
  const secrets: Record<string, string> = { password: ada.password }
  const secretOf = (token: string) => token.split(".").at(-1)!
  secrets["session"] = secretOf(ada.token)

  const second = await rest.enableTwoFactor({ password: ada.password })
  secrets["second factor"] = second.secret
  for (const [i, code] of second.backup_codes.entries()) {
    secrets[`backup code ${i}`] = code
    secrets[`backup code ${i} without its dash`] = code.replace("-", "")
  }
  await until("a step has time left", () => (Date.now() / 1000) % 30 < 25, { everyMs: 100 })
  await rest.confirmTwoFactor({ code: generateSync({ secret: second.secret }) })
  const login = await clientAt(shared.west).login({ username: ada.username, password: ada.password })
  secrets["challenge"] = secretOf(login.challenge_token!)

  await clientAt(shared.east).requestPasswordReset({ email: ada.email })
  secrets["mailed token"] = secretOf((await mailbox.next(ada.email)).token)

  const begun = await clientAt(shared.east).beginOAuth({ provider: "github", redirect_uri: redirect })
  secrets["oauth state"] = begun.state
  secrets["the provider's secret"] = "secret of the provider"

  const bot = newSecret(48)
  secrets["bot"] = bot
  await operator.command(ada.id, "createBot", { name: shared.newName("thief"), token_hash: hashSecret(bot) })
  const server = await rest.createServer({ name: "Ada's" })
  const [channel] = await rest.listChannels({ server_id: server.id })
  const webhook = await rest.createWebhook({ channel_id: channel!.id, name: "Crier" })
  const renewed = await ada.on(shared.west).regenerateWebhookToken({ webhook_id: webhook.id })
  secrets["webhook before"] = secretOf(webhook.token!)
  secrets["webhook"] = secretOf(renewed.token!)
  for (const place of [shared.east, shared.west])
    await clientAt(place).executeWebhook({ webhook_id: webhook.id, token: renewed.token!, content: "hear, hear" })
  const access = newSecret(24)
  secrets["access token"] = access
  await operator.accessTokens.create({
    name: "app",
    token_hash: hashSecret(access),
    mode: "none",
    scopes: [],
    expires_at: null,
  })

  secrets["key of a classifier"] = newSecret(24)
  secrets["header of a classifier"] = newSecret(24)
  const custom = {
    endpoint_url: "https://192.0.2.7/",
    api_key: secrets["key of a classifier"],
    headers: { "X-Key": secrets["header of a classifier"] },
  }
  await (await newOperator(shared)).on(shared.east).setAutomodSettings({ ai: { custom } })

  await shared.settle()
  const rows = await dump(shared)
  const cached = await remembered(shared)
  // It was looked where things are: who they are stands there.
  expect(rows).toContain(ada.email)
  expect(rows).toContain(hashSecret(secrets["session"]))
  expect(rows).toContain(hashSecret(secrets["webhook"]))
  expect(cached).toContain(ada.username)
  for (const [what, secret] of Object.entries(secrets)) {
    expect(rows.toLowerCase().includes(secret.toLowerCase()), `${what} in the database`).toBe(false)
    expect(cached.toLowerCase().includes(secret.toLowerCase()), `${what} in Redis`).toBe(false)
  }
  // And a short code is no plain hash of itself, which could be guessed in a moment.
  for (const code of second.backup_codes)
    for (const spelling of [code, code.replace("-", ""), code.toLowerCase(), code.replace("-", "").toLowerCase()])
      expect(rows.includes(hashSecret(spelling)), "a plain hash of a backup code").toBe(false)
})
