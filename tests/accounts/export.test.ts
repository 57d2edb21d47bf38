import { userActor } from "../../src/actors/user.ts"
import { otherTables, personalTables } from "../../src/storage/personal-data.ts"
import type { Cluster, Worker } from "../kit/cluster.ts"
import { refusal } from "../kit/conformance.ts"
import { everythingOf, botOf } from "../kit/everything.ts"
import { send } from "../kit/exchange.ts"
import { clientAt, type Person } from "../kit/person.ts"
import { plantedId } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"
import { routes } from "../../src/contract/contract.ts"
import { exportsStorage } from "../../src/storage/accounts/exports.ts"

type Rows = Record<string, unknown>[]

const isReady = (place: Worker, person: Person) =>
  until("the export is ready", async () => (await person.on(place).getExport()).status === "ready", {
    timeoutMs: 30_000,
    everyMs: 50,
  })

/** Every part, put together again by table. */
async function fetched(place: Worker, person: Person): Promise<Map<string, Rows>> {
  const { parts, tables } = await person.on(place).getExport()
  const found = new Map<string, Rows>()
  for (let part = 1; part <= parts; part++) {
    const { name, rows, ...about } = await person.on(place).getExportPart({ part: String(part) })
    expect(about).toMatchObject({ part, parts })
    found.set(name, [...(found.get(name) ?? []), ...rows])
  }
  expect(tables.map(({ name, rows }) => [name, rows])).toEqual([...found].map(([name, rows]) => [name, rows.length]))
  return found
}

/** What stands in a table about somebody, read without the program's own statements. */
async function standing({ sql }: Cluster, name: string, { id, username, email }: Person): Promise<Rows> {
  const { table, userColumns } = personalTables[name]!
  const rows: Rows = []
  for (const row of await sql<Rows>`SELECT * FROM ${sql(table)}`)
    if (
      userColumns === "names"
        ? [`#${id}`, username.toLowerCase(), email.toLowerCase()].includes(row["name"] as string)
        : userColumns.some(column => row[column] === id)
    )
      rows.push(JSON.parse(JSON.stringify(row)) as Record<string, unknown>)
  return rows
}

const sorted = (rows: Rows) =>
  rows
    .map(row =>
      JSON.stringify(
        Object.keys(row)
          .toSorted()
          .map(key => [key, row[key]]),
      ),
    )
    .toSorted()

test("EXP1: an export holds every row that is held about somebody, and nothing of anybody else", async ({ shared }) => {
  const { east, west, sql } = shared
  const [ada, lin] = [await shared.person("ada"), await shared.person("lin")]
  const { server } = await everythingOf(shared, east, ada, lin)
  await ada.on(east).createServer({ name: "Ada's own", description: "Hers" })
  // More than a part holds, among more of another's than one statement looks at.
  const first = BigInt(plantedId())
  await sql`
    INSERT INTO messages (channel_id, id, server_id, author_id, content)
    SELECT ${server.channel}, ${String(first)}::bigint + n, ${server.id}, CASE WHEN n % 4 = 0 THEN ${ada.id}::bigint ELSE ${lin.id}::bigint END,
      'Number ' || n FROM generate_series(1, 4500) AS n`
  // Ids of any length come in their order.
  await sql`
    INSERT INTO messages (channel_id, id, author_id, content)
    SELECT 10 ^ length, 9, ${ada.id}::bigint, 'Long ago' FROM generate_series(1, 9) AS length`

  expect(await refusal(ada.on(east).getExport())).toBe("export_not_found")
  expect(await refusal(ada.on(east).getExportPart({ part: "1" }))).toBe("export_not_found")
  const asked = await Promise.allSettled([ada.on(east).requestExport(), ada.on(west).requestExport()])
  const granted = asked.flatMap(answer => (answer.status === "fulfilled" ? [answer.value] : []))
  expect(granted).toMatchObject([{ status: "pending", parts: 0, tables: [], ready_at: null }])
  expect(await refusal(ada.on(west).requestExport())).toBe("export_pending")
  expect(await refusal(ada.on(west).getExportPart({ part: "1" }))).toBe("export_not_ready")

  await shared.bootJobWorker()
  await isReady(east, ada)
  const exported = await fetched(west, ada)
  for (const [name, { given, givenAs = {}, leftOut = {}, leftOutOf = {} }] of Object.entries(personalTables)) {
    const rows = await standing(shared, name, ada)
    expect([name, rows.length]).not.toEqual([name, 0])
    for (const row of rows)
      expect([name, Object.keys(row).toSorted()]).toEqual([name, [...given, ...Object.keys(leftOut)].toSorted()])
    // Of itself it tells how it stood when it was read.
    const moving = new Set(name === "exports" ? ["ready_at", "expires_at", "worked_at"] : [])
    const without = (column: string, value: unknown): unknown => {
      if (!leftOutOf[column]) return value
      const kept = Object.entries(JSON.parse(value as string) as object)
      return Object.fromEntries(kept.filter(([key]) => !(key in leftOutOf[column]!)))
    }
    const shown = (row: Record<string, unknown>) =>
      Object.fromEntries(
        given.filter(column => !moving.has(column)).map(column => [column, without(column, row[column])]),
      )
    const read = (row: Record<string, unknown>) =>
      Object.fromEntries(Object.entries(row).map(([column, value]) => [column, givenAs[column]?.(value) ?? value]))
    expect([name, sorted((exported.get(name) ?? []).map(shown))]).toEqual([name, sorted(rows.map(read).map(shown))])
  }
  expect(exported.get("channel_overrides")).toMatchObject([{ target_id: ada.id, allow: [], deny: ["voice.speak"] }])
  expect(exported.get("messages")).toHaveLength(1135)
  const text = JSON.stringify([...exported])
  for (const of of [lin.email, "What Lin wrote", "$argon2", "hash of a token", ada.token.split(".")[1]!])
    expect(text).not.toContain(of)

  const { left_out, expires_at, ready_at, id } = await ada.on(east).getExport()
  expect(left_out).toContainEqual(expect.objectContaining({ name: "users", column: "password_hash" }))
  expect(left_out).toContainEqual(expect.objectContaining({ name: "operator_commands", column: "input.token_hash" }))
  expect(expires_at! - ready_at!).toBe(7 * 86_400)

  // Nobody else gets it, and there is no more of it than there is.
  expect(await refusal(lin.on(east).getExport())).toBe("export_not_found")
  expect(await refusal(lin.on(east).getExportPart({ part: "1" }))).toBe("export_not_found")
  expect(await refusal(ada.on(east).getExportPart({ part: "99999" }))).toBe("export_part_not_found")
  for (const part of ["0", "-1", "1.5", "x", ""])
    expect(await refusal(ada.on(east).getExportPart({ part }))).toBe("validation_failed")
  const bot = await botOf(shared, east, ada)
  expect(await refusal(clientAt(east, bot.token).getExport())).toBe("people_only")

  // A day lies between two.
  const again = await send(east, "/api/v1/users/@me/export", { token: ada.token, route: routes.requestExport })
  expect(again.code).toBe("export_too_soon")
  expect(Number(again.headers.get("retry-after"))).toBeGreaterThan(86_000)

  // A job that was given up for dead comes to nothing.
  const { node } = east
  expect(await node.ask(userActor, ada.id, { type: "beginExport", export_id: id })).toEqual({ attempt: null })
  expect(await node.ask(userActor, ada.id, { type: "finishExport", export_id: id, attempt: 1 })).toEqual({
    finished: false,
  })

  await sql`UPDATE exports SET expires_at = 1 WHERE user_id = ${ada.id}`
  expect(await refusal(ada.on(west).getExport())).toBe("export_not_found")
}, 60_000)

test("EXP2: an export whose job was lost is begun anew, an expired one is deleted", async ({ cluster }) => {
  const [place] = await cluster.boot(1)
  const [ada, lin] = [await cluster.person("ada"), await cluster.person("lin")]
  const { sql } = cluster
  const [stuck, over] = [plantedId(), plantedId()]
  await sql`INSERT INTO exports (id, user_id, requested_at, attempt, worked_at) VALUES (${stuck}, ${ada.id}, 1, 1, 1)`
  await sql`
    INSERT INTO export_parts (export_id, attempt, number, name, row_count, rows) VALUES (${stuck}, 1, 1, 'users', 1, '[{"id":"7"}]')`
  await sql`INSERT INTO exports (id, user_id, requested_at, attempt, ready_at, expires_at) VALUES (${over}, ${lin.id}, 1, 1, 1, 2)`
  await sql`
    INSERT INTO export_parts (export_id, attempt, number, name, row_count, rows) VALUES (${over}, 1, 1, 'users', 1, '[{"id":"7"}]')`
  // Whatever else a sweep fails at before.
  await sql`DROP TABLE oauth_states`
  await cluster.bootJobWorker()
  await isReady(place!, ada)
  expect((await ada.on(place!).getExport()).id).toBe(stuck)
  expect((await fetched(place!, ada)).get("users")).toMatchObject([{ id: ada.id, email: ada.email }])
  await until("what is over is gone", async () => (await sql`SELECT FROM exports WHERE id = ${over}`).length === 0)
  expect(await sql`SELECT FROM export_parts WHERE export_id = ${over} OR attempt = 1`).toHaveLength(0)
  expect((await lin.on(place!).requestExport()).status).toBe("pending")
}, 60_000)

test("the export that is ready can be fetched until the next one is, and no longer", async ({ cluster }) => {
  const [place] = await cluster.boot(1, { config: { STARLING_EXPORT_INTERVAL_HOURS: "0" } })
  const ada = await cluster.person("ada")
  const { getExport, getExportPart, requestExport } = ada.on(place!)
  const { sql } = cluster
  const [older, soon] = [plantedId(), Math.floor(Date.now() / 1000) + 3600]
  await sql`INSERT INTO exports (id, user_id, requested_at, attempt, ready_at, expires_at) VALUES (${older}, ${ada.id}, 1, 1, 1, ${soon})`
  await sql`
    INSERT INTO export_parts (export_id, attempt, number, name, row_count, rows) VALUES (${older}, 1, 1, 'users', 1, '[{"id":"7"}]')`
  expect(await getExport()).toMatchObject({ id: older, status: "ready", is_another_pending: false })
  const { id, status } = await requestExport()
  expect(status).toBe("pending")
  expect(await getExport()).toMatchObject({ id: older, status: "ready", is_another_pending: true, parts: 1 })
  expect(await getExportPart({ part: "1" })).toMatchObject({ export_id: older, rows: [{ id: "7" }] })
  expect(await refusal(requestExport())).toBe("export_pending")
  await cluster.bootJobWorker()
  await until("the newer one is ready", async () => (await getExport()).id === id, { timeoutMs: 30_000, everyMs: 50 })
  expect(await getExport()).toMatchObject({ status: "ready", is_another_pending: false })
  await until("the older one is gone", async () => (await sql`SELECT FROM exports`).length === 1)
  expect(await sql`SELECT FROM export_parts WHERE export_id = ${older}`).toHaveLength(0)
}, 60_000)

test("an export is found at the moment at which it becomes ready", async ({ cluster }) => {
  const [place] = await cluster.boot(1)
  const ada = await cluster.person("ada")
  const { sql } = cluster
  const [id, soon] = [plantedId(), Math.floor(Date.now() / 1000) + 3600]
  await sql`INSERT INTO exports (id, user_id, requested_at, attempt, worked_at) VALUES (${id}, ${ada.id}, 1, 1, ${soon})`
  const turning = { isOver: false }
  const turn = async () => {
    for (let i = 0; i < 200; i++)
      await sql`
        UPDATE exports SET ready_at = CASE WHEN ready_at IS NULL THEN 1 END, expires_at = CASE WHEN ready_at IS NULL THEN ${soon}::bigint END
        WHERE id = ${id}`
    turning.isOver = true
  }
  const ask = async () => {
    while (!turning.isOver) expect((await ada.on(place!).getExport()).id).toBe(id)
  }
  await Promise.all([turn(), ask(), ask(), ask()])
})

test("exports that wait for a job are taken in the order in which they were asked for", async ({ cluster }) => {
  const { sql } = cluster
  const asked: string[] = []
  for (let i = 0; i < 8; i++) {
    const id = plantedId()
    await sql`INSERT INTO users (id, username, created_at) VALUES (${id}, ${cluster.newName("asker")}, 1)`
    await sql`INSERT INTO exports (id, user_id, requested_at) VALUES (${id}, ${id}, ${100 - i})`
    asked.unshift(id)
  }
  expect((await exportsStorage(sql).takeStuck(10_000, 1, 5)).map(({ id }) => id)).toEqual(asked.slice(0, 5))
  expect((await exportsStorage(sql).takeStuck(10_000, 1, 5)).map(({ id }) => id)).toEqual(asked.slice(5))
})

/** Columns that name somebody; where they were, or how to reach them. */
const naming =
  /^(.*user_?id|owner_id|author_id|inviter_id|creator_id|.*_by|other_id|target_id|sender_id|member_id|recipient_id)$/
const telling = /^(.*username|nickname|.*email.*|.*address|user_agent|phone.*|birth.*)$/

/**
 * What the tables of personal data do not know of the database, or say of it without being right.
 */
async function unknownIn({ sql }: Cluster): Promise<string[]> {
  const columns = await sql<{ table: string; column: string; refers: boolean }[]>`
    SELECT k.relname AS table, a.attname AS column, EXISTS (
      SELECT FROM pg_constraint f WHERE f.contype = 'f' AND f.confrelid = 'users'::regclass AND f.conrelid = k.oid AND a.attnum = ANY(f.conkey)
    ) AS refers
    FROM pg_class k JOIN pg_attribute a ON a.attrelid = k.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE k.relnamespace = 'public'::regnamespace AND k.relkind IN ('r', 'p') AND NOT k.relispartition`
  const known = Object.entries(personalTables).map(([, { table, ...facts }]) => ({ table, ...facts }))
  const missing = columns.flatMap(({ table, column, refers }) => {
    const its = known.filter(one => one.table === table)
    if (its.length === 0) {
      const other = otherTables[table]
      if (!other) return [`${table} is unknown`]
      const isPersonal = refers || naming.test(column) || telling.test(column)
      return isPersonal && !other.columns?.[column] ? [`${table}.${column} tells of somebody`] : []
    }
    const isNotified = its.every(({ given, leftOut }) => given.includes(column) || leftOut?.[column] !== undefined)
    const isFound = its.some(
      ({ userColumns, othersRows, leftOut }) =>
        userColumns.includes(column) || othersRows?.[column] !== undefined || leftOut?.[column] !== undefined,
    )
    return [
      ...(isNotified ? [] : [`${table}.${column} is neither given nor left out`]),
      ...((refers || naming.test(column)) && !isFound
        ? [`${table}.${column} names somebody who is not looked for`]
        : []),
    ]
  })
  const isThere = (table: string, column?: string) =>
    columns.some(one => one.table === table && (column === undefined || one.column === column))
  const gone = [
    ...Object.keys(otherTables).flatMap(table => (isThere(table) ? [] : [`there is no ${table}`])),
    ...known.flatMap(({ table, key, given, leftOut = {} }) =>
      [...Object.keys(key), ...given, ...Object.keys(leftOut)].flatMap(column =>
        isThere(table, column) ? [] : [`there is no ${table}.${column}`],
      ),
    ),
  ]
  return [...new Set([...missing, ...gone])].toSorted()
}

test("every table and column is declared to hold personal data or not", async ({ cluster }) => {
  expect(await unknownIn(cluster)).toEqual([])
  // What a later version might add without a thought.
  const { sql } = cluster
  await sql`CREATE TABLE diary (id bigint PRIMARY KEY, entry text)`
  await sql`ALTER TABLE sessions ADD COLUMN city text`
  await sql`ALTER TABLE channels ADD COLUMN made_by bigint`
  await sql`ALTER TABLE roles ADD COLUMN favourite bigint REFERENCES users`
  await sql`ALTER TABLE bans ADD COLUMN member_id bigint`
  await sql`ALTER TABLE presences DROP COLUMN last_seen`
  expect(await unknownIn(cluster)).toEqual([
    "bans.member_id is neither given nor left out",
    "bans.member_id names somebody who is not looked for",
    "channels.made_by tells of somebody",
    "diary is unknown",
    "roles.favourite tells of somebody",
    "sessions.city is neither given nor left out",
    "there is no presences.last_seen",
  ])
})
