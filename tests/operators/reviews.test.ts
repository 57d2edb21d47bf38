/** What waits for operators: reports of files, messages and users, and tickets; and what they block. */
import { createHash, randomBytes } from "node:crypto"
import type { Snowflake } from "../../src/contract/core/fields.ts"
import type { Route } from "../../src/contract/core/registry.ts"
import * as fileBlocks from "../../src/contract/operators/file-blocks.ts"
import * as reviews from "../../src/contract/operators/reviews.ts"
import * as tickets from "../../src/contract/operators/tickets.ts"
import { operator as commandLine } from "../../src/process/operator/operator.ts"
import { newOperator } from "../kit/area.ts"
import { refusal } from "../kit/conformance.ts"
import { botOf } from "../kit/everything.ts"
import { send } from "../kit/exchange.ts"
import type { Person } from "../kit/person.ts"
import { fileOf } from "../kit/pictures.ts"
import { dmBetween, plantedId, sharedServer } from "../kit/seeds.ts"
import { expect, testWith, type SharedCluster } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const test = testWith()
const sum = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex")
const note = (bytes: Uint8Array) => fileOf(bytes, "note.dat", "")
const missing = plantedId()

/** A message with a file, and a report of that file. */
async function reportedFile(shared: SharedCluster, more: object = {}) {
  const { ada, lin, channel } = await shared.seed(sharedServer)
  const bytes = randomBytes(100)
  const attach = () => ada.on(shared.east).uploadAttachment({ channel_id: channel.id, file: note(bytes) })
  const { id: message_id } = await ada
    .on(shared.east)
    .createMessage({ channel_id: channel.id, attachments: [await attach()] })
  const { report_id } = await lin
    .on(shared.west)
    .reportFile({ hash_value: sum(bytes), reason: "Stolen", message_id, ...more })
  const isBlocked = async () => (await lin.on(shared.west).getHashStatus({ hash_value: sum(bytes) })).is_blocked
  return { ada, lin, channel, attach, bytes, hash: sum(bytes), message_id, report_id, isBlocked }
}

test("a report of a file is reviewed: the last review counts, and the block list follows it", async ({ shared }) => {
  const { east, west } = shared
  const [op, other] = [await newOperator(shared), await newOperator(shared)]
  const file = await reportedFile(shared)
  const { report_id, hash, lin } = file
  const listed = async () => (await op.on(east).listHashReports()).find(({ id }) => id === report_id)
  const fresh = {
    id: report_id,
    hash_value: hash,
    phash_value: null,
    reporter_id: lin.id,
    reporter_username: lin.username,
    reason: "Stolen",
    details: null,
    status: "pending",
    reported_at: expect.any(Number),
    reviewed_at: null,
    reviewed_by: null,
    reviewed_by_username: null,
    admin_notes: null,
    uploader_id: null,
    message_id: file.message_id,
    attachment_url: null,
    block_uploader: false,
    counts: true,
  }
  expect(await listed()).toEqual(fresh)

  const review = (action: "block" | "clear" | "dismiss", notes?: string) =>
    op.on(west).reviewHashReport({ report_id, action, notes })
  expect(await review("block")).toEqual({ success: true, action: "block" })
  const reviewed = { reviewed_at: expect.any(Number), reviewed_by: op.id, reviewed_by_username: op.name }
  expect(await listed()).toEqual({ ...fresh, ...reviewed, status: "blocked" })
  expect(await refusal(file.attach())).toBe("file_blocked")
  expect((await op.on(east).listBlockedHashes())[0]).toEqual({
    hash_value: hash,
    hash_type: "sha256",
    phash_threshold: 0,
    reason: "Blocked by admin",
    blocked_at: expect.any(Number),
    blocked_by: op.id,
    auto_blocked: false,
  })

  await review("clear", "It is theirs")
  expect(await listed()).toEqual({ ...fresh, ...reviewed, status: "cleared", admin_notes: "It is theirs" })
  expect(await file.isBlocked()).toBe(false)
  await file.attach()
  await other.on(east).reviewHashReport({ report_id, action: "block", notes: "It is not" })
  expect((await op.on(east).listBlockedHashes())[0]).toMatchObject({ reason: "It is not", blocked_by: other.id })
  await review("dismiss")
  expect(await listed()).toMatchObject({ status: "reviewed", reviewed_by: op.id })
  expect(await file.isBlocked()).toBe(true)

  // Two at once: the statement of the second begins before the first is committed, so it does not
  // see what that has put on the list.
  const waiting = (count: number) =>
    until(`${count} reviews wait`, async () => {
      const rows = await shared.sql`
        SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%hash_reports%'`
      return rows.length === count
    })
  for (const [first, second] of [
    ["block", "clear"],
    ["clear", "block"],
  ] as const) {
    await review(second)
    const decided = await shared.sql.begin(async sql => {
      await sql`SELECT FROM hash_reports WHERE id = ${report_id} FOR UPDATE`
      const one = op.on(east).reviewHashReport({ report_id, action: first })
      await waiting(1)
      const two = other.on(west).reviewHashReport({ report_id, action: second })
      await waiting(2)
      return { all: Promise.all([one, two]) }
    })
    await decided.all
    const status = second === "block" ? "blocked" : "cleared"
    expect([(await listed())!.status, await file.isBlocked()]).toEqual([status, second === "block"])
  }
  const [entry] = await op.trail(east)
  expect(entry).toMatchObject({
    action: "reviewHashReport",
    target: report_id,
    input: { report_id, action: expect.any(String) },
    outcome: 200,
    result: { hash_value: hash },
  })
})

test("who reports a file has its uploader blocked, too, where they are one; nobody else they name", async ({
  shared,
}) => {
  const op = await newOperator(shared)
  const block = (report_id: Snowflake) =>
    op.on(shared.east).reviewHashReport({ report_id, action: "block", notes: "Stolen indeed" })
  const victim = await shared.person("victim")
  const framed = await reportedFile(shared, { uploader_id: victim.id, block_uploader: true })
  await block(framed.report_id)
  expect(await framed.isBlocked()).toBe(true)
  const blocked = async (person: Person) =>
    (await op.on(shared.west).listBlockedUploaders()).find(({ user_id }) => user_id === person.id)
  expect(await blocked(victim)).toBeUndefined()

  const file = await reportedFile(shared)
  const { ada, lin } = file
  const said = { hash_value: file.hash, reason: "Stolen", uploader_id: ada.id }
  await lin.on(shared.west).reportFile(said)
  await block(file.report_id)
  expect(await blocked(ada)).toBeUndefined()
  const again = await lin.on(shared.west).reportFile({ ...said, block_uploader: true })
  expect(again.report_id).not.toBe(file.report_id)
  await block(again.report_id)
  expect(await blocked(ada)).toEqual({
    user_id: ada.id,
    username: ada.username,
    reason: "Stolen indeed",
    blocked_at: expect.any(Number),
    blocked_by: op.id,
    expires_at: null,
  })
  expect(await refusal(file.attach())).toBe("uploads_blocked")
  expect((await op.trail(shared.east))[0]).toMatchObject({
    result: { hash_value: file.hash, blocked_uploader: ada.id },
  })
})

test("a report of a message is shown with what stands around it, as it was and as it is", async ({ shared }) => {
  const { east, west, sql } = shared
  const { ada, lin, server, channel } = await shared.seed(sharedServer)
  const op = await newOperator(shared)
  const channel_id = channel.id
  const rest = ada.on(east)
  const contents = Array.from({ length: 25 }, (_, i) => `Number ${i}`)
  const ids: string[] = []
  for (const content of contents) ids.push((await rest.createMessage({ channel_id, content })).id)
  const message_id = ids[12]!
  const { report_id } = await lin
    .on(west)
    .reportMessage({ channel_id, message_id, reason: "Bad number", category: "spam" })
  const context = () => op.on(west).getMessageReportContext({ report_id })
  const report = {
    id: report_id,
    message_id,
    channel_id,
    server_id: server.id,
    reporter_id: lin.id,
    reporter_username: lin.username,
    reported_user_id: ada.id,
    reported_username: ada.username,
    reason: "Bad number",
    category: "spam",
    details: null,
    message_content: "Number 12",
    status: "pending",
    reported_at: expect.any(Number),
    reviewed_at: null,
    reviewed_by: null,
    reviewed_by_username: null,
    admin_notes: null,
    action_taken: null,
  }
  const first = await context()
  expect(first).toMatchObject({ report, state: "unchanged", channel_name: channel.name, server_name: server.name })
  expect(first.message).toMatchObject({ id: message_id, content: "Number 12", author_username: ada.username })
  expect(first.before.map(({ id }) => id)).toEqual(ids.slice(2, 12))
  expect(first.after.map(({ id }) => id)).toEqual(ids.slice(13, 23))

  await rest.editMessage({ channel_id, message_id, content: "A good number" })
  expect(await context()).toMatchObject({ report, state: "edited", message: { content: "A good number" } })
  await rest.deleteMessage({ channel_id, message_id })
  const gone = await context()
  expect(gone).toMatchObject({ report, state: "deleted", message: null })
  expect(gone.before.map(({ id }) => id)).toEqual(ids.slice(2, 12))
  expect(gone.after.map(({ id }) => id)).toEqual(ids.slice(13, 23))
  expect(await refusal(op.on(east).getMessageReportContext({ report_id: missing }))).toBe("report_not_found")
  // Who has read what others wrote to one another is known.
  expect((await op.trail(east)).filter(({ action }) => action === "getMessageReportContext")).toHaveLength(4)

  const dm = await dmBetween(ada, lin, east)
  const alone = await rest.createMessage({ channel_id: dm, content: "psst" })
  const whispered = await lin.on(east).reportMessage({ channel_id: dm, message_id: alone.id, reason: "Rude" })
  expect(await op.on(east).getMessageReportContext({ report_id: whispered.report_id })).toMatchObject({
    state: "unchanged",
    before: [],
    after: [],
    channel_name: null,
    server_name: null,
  })
  // A few messages can be as long as a page may be.
  const long = "x".repeat(4_000)
  await sql`UPDATE messages SET embeds = ${sql.json([{ description: "y".repeat(200_000) }])}, content = ${long}
    WHERE channel_id = ${channel_id} AND id = ANY(${ids}::bigint[]) AND NOT deleted`
  const bounded = await send(east, `/api/v1/admin/message-reports/${report_id}/context`, { token: op.token })
  expect([bounded.status, bounded.bytes.length < 1_300_000]).toEqual([200, true])
  await rest.deleteServer({ server_id: server.id })
  expect(await context()).toMatchObject({ report, state: "deleted", server_name: null })
})

test("reports of messages and users are reviewed, and the last review counts", async ({ shared }) => {
  const { east, west } = shared
  const [op, other] = [await newOperator(shared), await newOperator(shared)]
  const { ada, lin, channel } = await shared.seed(sharedServer)
  const { id: message_id } = await ada.on(east).createMessage({ channel_id: channel.id, content: "here" })
  const ofMessage = await lin.on(west).reportMessage({ channel_id: channel.id, message_id, reason: "Rude" })
  const evidence_message_ids = [message_id]
  const ofUser = await lin.on(west).reportUser({ user_id: ada.id, reason: "Rude", evidence_message_ids })
  const kinds = [
    {
      report_id: ofMessage.report_id,
      list: op.on(east).listMessageReports,
      count: op.on(west).countMessageReports,
      review: (by: typeof op) => by.on(west).reviewMessageReport,
    },
    {
      report_id: ofUser.report_id,
      list: op.on(east).listUserReports,
      count: op.on(west).countUserReports,
      review: (by: typeof op) => by.on(west).reviewUserReport,
    },
  ]
  for (const { report_id, list, count, review } of kinds) {
    const of = async (status_filter?: "pending" | "reviewed" | "actioned" | "dismissed") =>
      (await list({ status_filter })).find(({ id }) => id === report_id)
    expect(await of()).toMatchObject({
      reported_user_id: ada.id,
      reporter_id: lin.id,
      status: "pending",
      action_taken: null,
    })
    const before = await count()
    for (const [action, status] of [
      ["review", "reviewed"],
      ["action", "actioned"],
      ["dismiss", "dismissed"],
    ] as const) {
      expect(await review(op)({ report_id, action, notes: `to ${action}` })).toEqual({ success: true, action })
      const row = { status, action_taken: action, reviewed_by: op.id, admin_notes: `to ${action}` }
      expect(await of(status)).toMatchObject({ ...row, reviewed_by_username: op.name, reviewed_at: expect.any(Number) })
      expect(await of("pending")).toBeUndefined()
    }
    const after = await count()
    expect(after).toEqual({ ...before, pending: before.pending - 1, dismissed: before.dismissed + 1 })
    expect(after.total).toBe(after.pending + after.reviewed + after.actioned + after.dismissed)
    await Promise.all([
      review(op)({ report_id, action: "action", notes: "one" }),
      review(other)({ report_id, action: "review", notes: "other" }),
    ])
    // One of them whole.
    const last = (await of())!
    expect([
      { status: "actioned", action_taken: "action", admin_notes: "one", reviewed_by: op.id },
      { status: "reviewed", action_taken: "review", admin_notes: "other", reviewed_by: other.id },
    ]).toContainEqual({
      status: last.status,
      action_taken: last.action_taken,
      admin_notes: last.admin_notes,
      reviewed_by: last.reviewed_by,
    })
    expect(await refusal(review(op)({ report_id: missing, action: "action" }))).toBe("report_not_found")
    const wrongs = [{ action: "ban" }, { notes: "x".repeat(2001) }] as object[]
    for (const wrong of wrongs)
      expect(await refusal(review(op)({ report_id, action: "action", ...wrong }))).toBe("validation_failed")
  }
  expect((await op.on(east).listUserReports())[0]).toMatchObject({ evidence_message_ids })
  expect(await refusal(op.on(east).reviewHashReport({ report_id: missing, action: "block" }))).toBe("report_not_found")
  expect(await refusal(op.on(east).reviewHashReport({ report_id: "x", action: "block" }))).toBe("validation_failed")
  const { pending, blocked, cleared, total } = await op.on(east).countHashReports()
  expect(total).toBeGreaterThanOrEqual(pending + blocked + cleared)
})

test("tickets: how far they are, what operators note, and whose they were", async ({ shared }) => {
  const { east, west, sql } = shared
  const [op, other] = [await newOperator(shared), await newOperator(shared)]
  const ada = await shared.person("ada")
  const { id: ticket_id } = await ada.on(east).sendFeedback({ content: "It does not work", category: "bug", rating: 2 })
  const fresh = {
    id: ticket_id,
    user_id: ada.id,
    username: ada.username,
    content: "It does not work",
    category: "bug",
    rating: 2,
    status: "open",
    created_at: expect.any(Number),
    resolved_at: null,
    resolved_by: null,
    resolved_by_username: null,
  }
  const ticket = () => op.on(west).getTicket({ ticket_id })
  expect(await ticket()).toEqual(fresh)
  expect((await op.on(east).listTickets({ status_filter: "open" }))[0]).toEqual(fresh)
  const resolved = { resolved_at: expect.any(Number), resolved_by: other.id, resolved_by_username: other.name }
  for (const status of ["resolved", "closed", "in_progress", "open", "closed"] as const) {
    expect(await other.on(east).setTicketStatus({ ticket_id, status })).toEqual({ success: true })
    const isOver = status === "resolved" || status === "closed"
    expect(await ticket()).toEqual({ ...fresh, status, ...(isOver && resolved) })
  }
  expect(await op.on(east).listTickets({ status_filter: "open", limit: "1" })).not.toContainEqual(fresh)

  expect(await op.on(west).listTicketNotes({ ticket_id })).toEqual([])
  const [first, second] = [
    await op.on(west).addTicketNote({ ticket_id, content: "Which browser?" }),
    await other.on(east).addTicketNote({ ticket_id, content: "None" }),
  ]
  expect(first).toEqual({
    id: expect.any(String),
    ticket_id,
    admin_id: op.id,
    admin_username: op.name,
    content: "Which browser?",
    created_at: expect.any(Number),
  })
  expect(await op.on(west).listTicketNotes({ ticket_id })).toEqual([first, second])

  await sql`UPDATE users SET deletion_status = 'purged' WHERE id = ${ada.id}`
  expect(await ticket()).toMatchObject({ user_id: ada.id, username: "Unknown" })
  await sql`
    INSERT INTO feedback_notes (ticket_id, admin_id, content, created_at)
    SELECT ${ticket_id}, 999999, 'x', 1 FROM generate_series(1, 498)`
  expect((await op.on(east).listTicketNotes({ ticket_id })).at(-1)).toMatchObject({ admin_username: "Unknown" })
  expect(await refusal(op.on(east).addTicketNote({ ticket_id, content: "One more" }))).toBe("ticket_note_limit")

  const rest = op.on(west)
  for (const call of [
    rest.getTicket({ ticket_id: missing }),
    rest.listTicketNotes({ ticket_id: missing }),
    rest.addTicketNote({ ticket_id: missing, content: "x" }),
    rest.setTicketStatus({ ticket_id: missing, status: "open" }),
  ].map(call => refusal(call)))
    expect(await call).toBe("ticket_not_found")
  const done = { ticket_id, status: "done" } as unknown as { ticket_id: string; status: "open" }
  for (const call of [
    rest.getTicket({ ticket_id: "x" }),
    rest.setTicketStatus(done),
    rest.addTicketNote({ ticket_id, content: "" }),
    rest.addTicketNote({ ticket_id, content: "x".repeat(2001) }),
    rest.listTickets({ status_filter: "done" as "open" }),
  ].map(call => refusal(call)))
    expect(await call).toBe("validation_failed")
})

test("the block lists are those of the command line", async ({ shared }) => {
  const { east, west } = shared
  const op = await newOperator(shared)
  const rest = op.on(west)
  const obeyed = async (...words: string[]) => {
    const { code, out } = await commandLine(words, { DATABASE_URL: shared.databaseUrl })
    expect(code).toBe(0)
    return out
  }
  const { ada, channel } = await shared.seed(sharedServer)
  const bytes = randomBytes(100)
  const attach = () => ada.on(east).uploadAttachment({ channel_id: channel.id, file: note(bytes) })
  const hash_value = sum(bytes)
  expect(await rest.blockHash({ hash_value: hash_value.toUpperCase(), reason: "Not here" })).toEqual({
    success: true,
    hash_value,
    hash_type: "sha256",
  })
  expect(await refusal(attach())).toBe("file_blocked")
  expect(await obeyed("files", "blocked")).toContain(`${hash_value}  sha256`)
  await obeyed("files", "block", hash_value, "--reason", "Not there either")
  const listed = (await rest.listBlockedHashes({ limit: "200" })).filter(row => row.hash_value === hash_value)
  expect(listed).toMatchObject([{ reason: "Not there either", blocked_by: null, auto_blocked: false }])
  for (const was_blocked of [true, false]) {
    expect(await rest.unblockHash({ hash_value: hash_value.toUpperCase() })).toEqual({ success: true })
    expect((await op.trail(east))[0]).toMatchObject({ action: "unblockHash", result: { was_blocked } })
  }
  await attach()
  const phash = randomBytes(8).toString("hex")
  expect(await rest.blockHash({ hash_value: phash, reason: "Looks bad" })).toMatchObject({ hash_type: "phash" })
  expect((await rest.listBlockedHashes()).find(row => row.hash_value === phash)).toMatchObject({ phash_threshold: 10 })
  await obeyed("files", "unblock", phash)
  expect((await rest.listBlockedHashes()).find(row => row.hash_value === phash)).toBeUndefined()

  const { id: user_id, username } = ada
  const block = { user_id: user_id as string | number, reason: "Spam" }
  expect(await rest.blockUploader({ ...block, duration_hours: 2 })).toEqual({ success: true, user_id })
  const uploader = async () => (await rest.listBlockedUploaders()).find(row => row.user_id === user_id)
  const known = { user_id, username, reason: "Spam", blocked_by: op.id }
  const held = (await uploader())!
  expect(held).toMatchObject({ ...known, expires_at: held.blocked_at + 7_200 })
  expect(await refusal(attach())).toBe("uploads_blocked")
  expect(await obeyed("uploads", "blocked")).toContain(`${user_id}  ${username}  until`)
  await rest.blockUploader({ ...block, duration_hours: 0 })
  expect(await uploader()).toMatchObject({ ...known, expires_at: null })
  for (const was_blocked of [true, false]) {
    expect(await rest.unblockUploader({ user_id })).toEqual({ success: true })
    expect((await op.trail(east))[0]).toMatchObject({
      action: "unblockUploader",
      target: user_id,
      result: { was_blocked },
    })
  }
  expect(await uploader()).toBeUndefined()
  await attach()

  expect(await refusal(rest.blockUploader({ user_id: missing, reason: "x" }))).toBe("user_not_found")
  expect(await refusal(rest.unblockUploader({ user_id: "x" }))).toBe("validation_failed")
  for (const call of [
    () => rest.blockHash({ hash_value: "abc", reason: "x" }),
    () => rest.blockHash({ hash_value, reason: "" }),
    () => rest.unblockHash({ hash_value: "xyz" }),
    () => rest.blockUploader({ user_id: "x", reason: "x" }),
    () => rest.blockUploader({ user_id, reason: "x".repeat(501) }),
    () => rest.blockUploader({ user_id, reason: "x", duration_hours: -1 }),
  ])
    expect(await refusal(call())).toBe("validation_failed")
})

test("ten thousand of each: the newest first, page by page, by indexes alone", async ({ shared }) => {
  const { sql, east } = shared
  const op = await newOperator(shared)
  const rest = op.on(east)
  const base = BigInt(plantedId())
  const planted = (n: number) => String(base + BigInt(n))
  await sql`
    INSERT INTO message_reports (id, message_id, channel_id, reporter_id, reported_user_id, reason, category, message_content, reported_at)
    SELECT ${planted(0)}::bigint + n, n, 1, n, 2, repeat('r', 400), 'other', repeat('x', 500), 1 FROM generate_series(1, 10000) n`
  await sql`
    INSERT INTO user_reports (id, reported_user_id, reporter_id, reason, category, evidence_message_ids, reported_at, status)
    SELECT ${planted(0)}::bigint + n, 2, n, 'r', 'other', '{}', 1, CASE WHEN n % 2 = 0 THEN 'pending' ELSE 'dismissed' END FROM generate_series(1, 10000) n`
  await sql`
    INSERT INTO hash_reports (id, hash_value, reporter_id, reason, reported_at, block_uploader, counts)
    SELECT ${planted(0)}::bigint + n, md5(n::text), n, 'r', 1, false, false FROM generate_series(1, 10000) n`
  await sql`
    INSERT INTO feedback (id, user_id, content, created_at)
    SELECT ${planted(0)}::bigint + n, 1, repeat('t', 1000), 1 FROM generate_series(1, 10000) n`
  const lists = {
    message_reports: rest.listMessageReports,
    user_reports: rest.listUserReports,
    hash_reports: rest.listHashReports,
    feedback: rest.listTickets,
  }
  for (const [table, list] of Object.entries(lists)) {
    const own = async (query: { status_filter?: "pending"; limit?: string; offset?: string }) =>
      (await list(query as object)).map(({ id }) => id)
    const all = (await sql<{ id: string }[]>`SELECT t.id::text AS id FROM ${sql(table)} t ORDER BY t.id DESC`).map(
      ({ id }) => id,
    )
    expect(await own({})).toEqual(all.slice(0, 50))
    expect(await own({ limit: "1000", offset: "-5" })).toEqual(all.slice(0, 200))
    expect(await own({ limit: "0", offset: "9900" })).toEqual(all.slice(9_900, 9_901))
    expect(await own({ limit: "200", offset: "1000000000" })).toEqual([])
    // The planner prefers to read few rows through: that there is an index is what counts.
    const plan = await sql.begin(async sql => {
      await sql`SET LOCAL enable_seqscan = off`
      await sql`SET LOCAL enable_bitmapscan = off`
      return sql`EXPLAIN SELECT id FROM ${sql(table)} WHERE status = 'pending' ORDER BY id DESC LIMIT 50 OFFSET 5000`
    })
    const steps = plan.map(line => String(Object.values(line)[0]))
    expect(steps.filter(step => /Index Only Scan Backward/.test(step))).toHaveLength(1)
    expect(steps.filter(step => /Sort/.test(step))).toEqual([])
  }
  const [row] = await sql<
    { pending: number }[]
  >`SELECT count(*)::int AS pending FROM user_reports WHERE status = 'pending'`
  expect(await rest.countUserReports()).toMatchObject(row!)
})

test("a bot of an administrator is no operator", async ({ shared }) => {
  const ada = await shared.person("ada")
  const bot = await botOf(shared, shared.east, ada)
  await shared.sql`UPDATE users SET permissions = '{administrator}' WHERE id = ANY(${[ada.id, bot.id]}::bigint[])`
  for (const [name, route] of Object.entries<Route>({ ...tickets.routes, ...reviews.routes, ...fileBlocks.routes })) {
    const path = `/api/v1${route.path.replaceAll(/:\w+/g, missing)}`
    const body = route.body ? { body: "{}" } : {}
    const answer = await send(shared.west, path, { route, token: bot.token, ...body })
    expect([name, answer.code]).toEqual([name, "operator_session_ended"])
  }
})
