import { putSettings, type Setting } from "../../src/contract/accounts/settings.ts"
import { settingsStorage } from "../../src/storage/accounts/settings.ts"
import { refusal } from "../kit/conformance.ts"
import { send } from "../kit/exchange.ts"
import { plantedId } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"

const odd = [
  "__proto__",
  "constructor",
  "toString",
  "hasOwnProperty",
  "prototype",
  "length",
  "🧪 ключ",
  "a/b?c#d%2F",
  " ",
]

const sorted = (settings: object): [string, unknown][] =>
  Object.entries(settings).toSorted(([a], [b]) => (a < b ? -1 : 1))

test("a setting is kept, listed, changed and forgotten, on every worker, for its user alone", async ({ shared }) => {
  const [ada, lin] = await Promise.all([shared.person("ada"), shared.person("lin")])
  const [east, west] = [ada.on(shared.east), ada.on(shared.west)]
  expect(await west.listSettings()).toEqual({ settings: {}, count: 0, limit: 100 })
  const first = await east.putSetting({ key: "theme", value: "dark" })
  expect(first).toMatchObject({ key: "theme", value: "dark" })
  expect(first.updated_at).toBe(first.created_at)
  expect(await west.getSetting({ key: "theme" })).toEqual(first)

  const second = await west.putSetting({ key: "theme", value: "" })
  expect(second).toEqual({ ...first, value: "", updated_at: second.updated_at })
  expect(await east.listSettings()).toEqual({ settings: { theme: "" }, count: 1, limit: 100 })
  expect(await lin.on(shared.east).listSettings()).toEqual({ settings: {}, count: 0, limit: 100 })
  expect(await refusal(lin.on(shared.east).getSetting({ key: "theme" }))).toBe("setting_not_found")
  expect(await refusal(lin.on(shared.east).deleteSetting({ key: "theme" }))).toBe("setting_not_found")

  expect(await west.deleteSetting({ key: "theme" })).toEqual({ success: true })
  const { status, body } = await send(shared.east, "/api/v1/users/@me/settings/theme", { token: ada.token })
  expect([status, body]).toMatchObject([404, { error: { message: "Setting 'theme' not found" } }])
  expect(await refusal(east.deleteSetting({ key: "theme" }))).toBe("setting_not_found")
})

test("created_at survives what is written over it, also when the user's home has forgotten", async ({ shared }) => {
  const ada = await shared.person("ada")
  // Before the home has looked at the keys.
  await shared.sql`
    INSERT INTO settings (user_id, key, value, created_at, updated_at) VALUES (${ada.id}, 'old', 'x', 1700000000, 1700000001)`
  const written = await ada.on(shared.west).putSetting({ key: "old", value: "y" })
  expect(written.created_at).toBe(1_700_000_000)
  expect(written.updated_at).toBeGreaterThan(1_700_000_001)
  expect(await ada.on(shared.east).getSetting({ key: "old" })).toEqual(written)
})

test("any text is a key, whatever it means elsewhere", async ({ shared }) => {
  const ada = await shared.person("ada")
  const rest = ada.on(shared.east)
  for (const key of odd) {
    expect((await rest.putSetting({ key, value: `of ${key}` })).key).toBe(key)
    expect((await rest.getSetting({ key })).value).toBe(`of ${key}`)
  }
  const { text } = await send(shared.west, "/api/v1/users/@me/settings", { token: ada.token })
  const { settings, count } = JSON.parse(text) as { settings: object; count: number }
  expect(sorted(settings)).toEqual(sorted(Object.fromEntries(odd.map(key => [key, `of ${key}`]))))
  expect(count).toBe(odd.length)
  for (const key of odd) expect(await rest.deleteSetting({ key })).toEqual({ success: true })
  expect(await rest.listSettings()).toEqual({ settings: {}, count: 0, limit: 100 })
})

test("keys and values have their bounds, and some keys are taken", async ({ shared }) => {
  const ada = await shared.person("ada")
  const { putSetting, getSetting, deleteSetting, listSettings } = ada.on(shared.east)
  const value = "v"
  expect((await putSetting({ key: "🧪".repeat(100), value: "🧪".repeat(10_000) })).value).toHaveLength(20_000)
  const long = "k".repeat(101)
  expect(await refusal(putSetting({ key: long, value }))).toBe("setting_key_too_long")
  expect(await refusal(getSetting({ key: long }))).toBe("setting_key_too_long")
  expect(await refusal(deleteSetting({ key: long }))).toBe("setting_key_too_long")
  for (const key of ["__internal", "__internal_flags"]) {
    expect(await refusal(putSetting({ key, value }))).toBe("setting_key_reserved")
    expect(await refusal(getSetting({ key }))).toBe("setting_not_found")
  }
  expect(await refusal(getSetting({ key: "bulk" }))).toBe("setting_not_found")
  expect(await refusal(putSetting({ key: "k", value: "v".repeat(10_001) }))).toBe("setting_value_too_long")
  for (const wrong of [1, true, {}, [], null]) {
    const put = putSetting({ key: "k", value: wrong as unknown as string })
    expect(await refusal(put)).toBe("validation_failed")
  }
  expect(await refusal(putSetting({ key: "a\u0000b", value }))).toBe("unsafe_text")
  expect(await refusal(putSetting({ key: "k", value: "a\u0000b" }))).toBe("unsafe_text")
  expect((await listSettings()).count).toBe(1)
})

test("SET1: a hundred keys, however many write at the same time", async ({ shared }) => {
  const ada = await shared.person("ada")
  const [east, west] = [ada.on(shared.east), ada.on(shared.west)]
  await east.putSettings(Object.fromEntries(Array.from({ length: 95 }, (_, i) => [`key ${i}`, "x"])))
  const writers = Array.from({ length: 20 }, (_, i) =>
    (i % 2 === 0 ? east : west)
      .putSetting({ key: `late ${i}`, value: "x" })
      .then(() => "granted")
      .catch(async () => "refused"),
  )
  const outcomes = await Promise.all(writers)
  expect(outcomes.filter(one => one === "granted")).toHaveLength(5)
  expect(await refusal(west.putSetting({ key: "one more", value: "x" }))).toBe("setting_limit")
  expect(await east.listSettings()).toMatchObject({ count: 100, limit: 100 })
  const [{ rows }] = (await shared.sql`SELECT count(*)::int AS rows FROM settings WHERE user_id = ${ada.id}`) as [
    { rows: number },
  ]
  expect(rows).toBe(100)
  // What is there may change; forgetting frees capacity.
  expect((await east.putSetting({ key: "key 0", value: "y" })).value).toBe("y")
  await west.deleteSetting({ key: "key 1" })
  expect((await east.putSetting({ key: "one more", value: "x" })).key).toBe("one more")
})

test("SET2: several settings are kept together or not at all", async ({ shared }) => {
  const ada = await shared.person("ada")
  const bulk = (body: string) =>
    send(shared.east, "/api/v1/users/@me/settings/bulk", { route: putSettings, token: ada.token, body })
  expect(
    (await bulk('{"theme":"dark","size":12,"on":true,"none":null,"list":[1,{"a":"b"}],"__proto__":"p"}')).body,
  ).toEqual({
    success: true,
  })
  const { text } = await send(shared.west, "/api/v1/users/@me/settings", { token: ada.token })
  const kept = (JSON.parse(text) as { settings: object }).settings
  const before = sorted(kept)
  expect(before).toEqual([
    ["__proto__", "p"],
    ["list", '[1,{"a":"b"}]'],
    ["none", "null"],
    ["on", "true"],
    ["size", "12"],
    ["theme", "dark"],
  ])
  const many = Object.fromEntries(Array.from({ length: 95 }, (_, i) => [`key ${i}`, "x"]))
  for (const [body, code] of [
    [{ theme: "light", __internal: "x" }, "setting_key_reserved"],
    [{ theme: "light", bulk: "x" }, "setting_key_reserved"],
    [{ theme: "light", ["k".repeat(101)]: "x" }, "setting_key_too_long"],
    [{ theme: "light", k: "v".repeat(10_001) }, "setting_value_too_long"],
    [{ theme: "light", "": "x" }, "setting_invalid"],
    [{ theme: "light", ...many }, "setting_limit"],
    [Object.fromEntries(Array.from({ length: 5_000 }, (_, i) => [i, ""])), "setting_limit"],
  ] as const)
    expect((await bulk(JSON.stringify(body))).code).toBe(code)
  for (const value of ["9007199254740993", "-9007199254740993", "1e400", '[1,{"a":[9007199254740993]}]'])
    expect((await bulk(`{"theme":"light","size":${value}}`)).code).toBe("setting_invalid")
  for (const body of ["[]", '["theme"]', '"theme"', "7", "null"])
    expect((await bulk(body)).code).toBe("validation_failed")
  expect((await bulk('{"theme":"light","a\\u0000":"x"}')).code).toBe("unsafe_text")
  const after = JSON.parse((await send(shared.east, "/api/v1/users/@me/settings", { token: ada.token })).text) as {
    settings: object
  }
  expect(sorted(after.settings)).toEqual(before)
  expect((await bulk("{}")).body).toEqual({ success: true })
  expect((await bulk('{"size":9007199254740991,"part":0.1}')).body).toEqual({ success: true })
})

test("what a client looks at is in no list, takes no capacity and is gone after an hour", async ({ shared }) => {
  const ada = await shared.person("ada")
  const { putSetting, putSettings, getSetting, deleteSetting, listSettings } = ada.on(shared.east)
  const key = "_focused_channel"
  const at = (channel_id: string) => JSON.stringify({ channel_id, server_id: "3" })
  await putSettings(Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`key ${i}`, "x"])))
  const kept: Setting = await putSetting({ key, value: at("7") })
  expect(await ada.on(shared.west).getSetting({ key })).toEqual(kept)
  expect((await listSettings()).count).toBe(100)
  expect((await listSettings()).settings).not.toHaveProperty(key)
  for (const value of ["", "7", "{}", '{"channel_id":7,"server_id":"3"}'])
    expect(await refusal(putSetting({ key, value }))).toBe("validation_failed")

  await shared.sql`UPDATE settings SET updated_at = updated_at - 3601 WHERE key = ${key} AND user_id = ${ada.id}`
  expect(await refusal(getSetting({ key }))).toBe("setting_not_found")
  await putSetting({ key, value: at("8") })
  expect((await getSetting({ key })).value).toBe(at("8"))
  expect((await putSetting({ key, value: at("0") })).value).toBe(at("0"))
  expect(await refusal(getSetting({ key }))).toBe("setting_not_found")
  expect(await refusal(deleteSetting({ key }))).toBe("setting_not_found")
})

test("a focus that is over is no setting to anybody, whether it was swept or not", async ({ shared }) => {
  const [ada, lin] = [await shared.person("ada"), await shared.person("lin")]
  const key = "_focused_channel"
  const value = JSON.stringify({ channel_id: "7", server_id: "3" })
  // Before their homes have looked.
  for (const { id } of [ada, lin])
    await shared.sql`
      INSERT INTO settings (user_id, key, value, created_at, updated_at)
      VALUES (${id}, ${key}, ${value}, 1700000000, ${Math.floor(Date.now() / 1000) - 3601})`
  expect(await refusal(ada.on(shared.east).deleteSetting({ key }))).toBe("setting_not_found")
  const kept = await lin.on(shared.west).putSetting({ key, value })
  expect(kept.created_at).toBe(kept.updated_at)
  expect(await lin.on(shared.east).getSetting({ key })).toEqual(kept)
})

test("what clients looked at is forgotten a few at a time, and nothing else with it", async ({ shared }) => {
  const { sql } = shared
  const forget = (limit: number) => settingsStorage(sql).forgetFocus(9, limit)
  for (let i = 0; i < 5; i++) {
    const id = plantedId()
    await sql`INSERT INTO users (id, username, created_at) VALUES (${id}, ${shared.newName("looker")}, 1)`
    await sql`
      INSERT INTO settings (user_id, key, value, created_at, updated_at)
      VALUES (${id}, '_focused_channel', '{}', 1, ${i}), (${id}, 'theme', 'of old', 1, ${i})`
  }
  expect([await forget(2), await forget(2), await forget(2), await forget(2)]).toEqual([2, 2, 1, 0])
  expect(await sql`SELECT FROM settings WHERE value = 'of old'`).toHaveLength(5)
})
