/**
 * The key under which second factors lie sealed: made once, however many start at the same time,
 * and never mistaken for another.
 */
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { generateSync } from "otplib"
import { beforeAll, onTestFinished } from "vitest"
import { clusterConfig } from "../../cluster.config.ts"
import { operator } from "../../src/process/operator/operator.ts"
import { secretKeyOf } from "../../src/process/primary/secret-key.ts"
import { openStorage, type Storage } from "../../src/storage/storage.ts"
import { refusal } from "../kit/conformance.ts"
import { cloneDatabase, type TestDatabase } from "../kit/database.ts"
import { clientAt } from "../kit/person.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

let database: TestDatabase
let storage: Storage

beforeAll(async () => {
  database = await cloneDatabase()
  storage = opened(database.url, "test")
  return async () => {
    await storage.close()
    await database.drop()
  }
})

async function folder(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), "starling-key-"))
  onTestFinished(() => rm(path, { recursive: true, force: true }))
  return path
}
/** As with a database that knows no key yet. */
const forget = () => database.sql`UPDATE service SET secret_key_id = NULL`
const keyOf = (dataDir: string, secretKey?: string, of: Storage = storage) =>
  secretKeyOf({ dataDir, ...(secretKey !== undefined && { secretKey }) }, of)
const opened = (url: string, name: string) => openStorage({ ...clusterConfig.storage, readConnections: 4, url, name })

test("a key is made once, readable by its owner only, and read again", async () => {
  await forget()
  const dataDir = join(await folder(), "not", "there", "yet")
  const key = await keyOf(dataDir)
  expect(key).toMatch(/^[0-9a-f]{64}$/)
  const path = join(dataDir, "secret.key")
  expect((await stat(path)).mode & 0o777).toBe(0o600)
  expect(await readFile(path, "utf8")).toMatch(/^[0-9a-f]{64}\n$/)
  expect(await keyOf(dataDir)).toBe(key)
  // What lies there is not the key itself, and an operator's counts before it.
  expect(await readFile(path, "utf8")).not.toContain(key)
  expect(await keyOf(dataDir, (await readFile(path, "utf8")).trim())).toBe(key)
})

test("hosts that make one at the same time all have the same, and nothing else is left behind", async () => {
  for (let round = 0; round < 20; round++) {
    await forget()
    const dataDir = await folder()
    const keys = await Promise.all(Array.from({ length: 3 }, () => keyOf(dataDir)))
    expect(new Set(keys).size).toBe(1)
    // The program that starts next finds the one that was claimed.
    expect(await keyOf(dataDir)).toBe(keys[0])
    expect(await readdir(dataDir)).toEqual(["secret.key"])
  }
})

test("a file that is cut short is no key, and none is made in its place", async () => {
  await forget()
  const dataDir = await folder()
  const path = join(dataDir, "secret.key")
  for (const [text, why] of [
    ["", /secret\.key is empty/],
    ["\n", /secret\.key is empty/],
    ["abc\n", /secret\.key holds less than 32 characters/],
  ] as const) {
    await writeFile(path, text)
    await expect(keyOf(dataDir)).rejects.toThrow(why)
    expect(await readFile(path, "utf8")).toBe(text)
  }
  expect((await database.sql`SELECT secret_key_id FROM service`)[0]).toEqual({ secret_key_id: null })
})

test("another key than the first is refused, wherever it comes from", async () => {
  await forget()
  const [first, second] = ["first key of this database, long enough", "second key of this database, long enough"]
  await keyOf(await folder(), first)
  await expect(keyOf(await folder(), second)).rejects.toThrow(/another secret key .* than SECRET_KEY: /)
  const dataDir = await folder()
  await expect(keyOf(dataDir)).rejects.toThrow(/another secret key .*secret\.key, which has just been made: /)
  await expect(keyOf(dataDir)).rejects.toThrow(/another secret key .*secret\.key: /)
  await keyOf(await folder(), first)
})

test("a lost key is replaced by another, without what was sealed: not while a server runs", async ({ cluster }) => {
  const say = () => operator(["secret-key", "forget"], { DATABASE_URL: cluster.databaseUrl })
  const factors = () =>
    cluster.sql`SELECT totp_enabled, totp_secret IS NULL AS none, cardinality(backup_codes) AS codes FROM users ORDER BY id`
  const [former, other] = ["the key of before, which is lost", "another key of this database, long enough"]
  const primary = opened(cluster.databaseUrl, "starling primary")
  await keyOf("", former, primary)
  const [place] = await cluster.boot(1)
  const [ada, lin] = [await cluster.person("ada"), await cluster.person("lin")]
  const { secret } = await ada.on(place!).enableTwoFactor({ password: ada.password })
  await ada.on(place!).confirmTwoFactor({ code: generateSync({ secret }) })
  const { challenge_token } = await clientAt(place!).login({ username: ada.username, password: ada.password })
  await cluster.sql`UPDATE service SET automod_classifiers = 'sealed with it', automod_backends = '{custom}'`
  // Not confirmed yet.
  await lin.on(place!).enableTwoFactor({ password: lin.password })
  await cluster.sql`
    INSERT INTO operators (name, password_hash, must_setup_otp, totp_secret, totp_step, backup_codes) VALUES ('op', 'h', false, 'sealed', 7, '{a,b}')`
  const before = await factors()
  expect(before).toEqual([
    { totp_enabled: true, none: false, codes: 10 },
    { totp_enabled: false, none: false, codes: 10 },
  ])

  expect(await say()).toMatchObject({
    code: 1,
    said: expect.stringMatching(/connected to the database: starling primary, w0-/),
  })
  await primary.close()
  expect(await say()).toMatchObject({ code: 1, said: expect.stringMatching(/connected to the database: w0-/) })
  expect(await factors()).toEqual(before)
  await place!.stop()
  // As if it had been killed, and nobody had noticed.
  await cluster.sql`UPDATE incarnations SET died_at = NULL`
  const generations = async () =>
    (await cluster.sql`SELECT sum(generation)::int AS sum FROM lanes`)[0]!["sum"] as number
  const generation = await generations()
  let answer = await say()
  await until("its connections are gone", async () => (answer = answer.code === 0 ? answer : await say()).code === 0)
  expect(answer.out).toMatch(/disabled second factors: 1, invalidated backup codes: 10$/)
  expect(await factors()).toEqual(before.map(() => ({ totp_enabled: false, none: true, codes: 0 })))
  expect(await cluster.sql`SELECT must_setup_otp, totp_secret, totp_step, backup_codes FROM operators`).toEqual([
    { must_setup_otp: true, totp_secret: null, totp_step: 0, backup_codes: [] },
  ])
  const [settings] = await cluster.sql`SELECT automod_classifiers, automod_backends, automod_version FROM service`
  expect(settings).toEqual({ automod_classifiers: null, automod_backends: [], automod_version: 1 })
  expect(await cluster.sql`SELECT 1 FROM incarnations WHERE died_at IS NULL`).toEqual([])
  expect(await generations()).toBeGreaterThan(generation)

  const next = opened(cluster.databaseUrl, "starling primary")
  onTestFinished(() => next.close())
  await keyOf("", other, next)
  await expect(keyOf("", former, next)).rejects.toThrow(/another secret key/)
  const [successor] = await cluster.boot(1)
  expect((await clientAt(successor!).login({ username: ada.username, password: ada.password })).status).toBe("success")
  expect(
    await refusal(
      clientAt(successor!).completeTwoFactor({ challenge_token: challenge_token!, code: generateSync({ secret }) }),
    ),
  ).toBe("used_challenge")
  expect(await ada.on(successor!).getTwoFactorStatus()).toEqual({ enabled: false, backup_codes_remaining: 0 })
})
