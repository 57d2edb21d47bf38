import { createHash, randomBytes } from "node:crypto"
import { refusal } from "../kit/conformance.ts"
import { botOf } from "../kit/everything.ts"
import { clientAt, type Person } from "../kit/person.ts"
import { fileOf } from "../kit/pictures.ts"
import { dmBetween, plantedId, sharedServer } from "../kit/seeds.ts"
import { expect, testWith, type SharedCluster } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const test = testWith({
  jobWorkers: 1,
  config: { STARLING_REPORTS_TO_BLOCK_FILE: "2", STARLING_ACCOUNT_DELETION_DAYS: "0" },
})
const sum = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex")
const submitted = { success: true, report_id: expect.any(String), message: "Report submitted successfully" }

const messageReports = ({ sql }: SharedCluster, reporter: Person) => sql`
  SELECT id::text AS id, message_id::text AS message_id, channel_id::text AS channel_id, server_id::text AS server_id,
    reported_user_id::text AS reported_user_id, reason, category, details, message_content, status, reported_at
  FROM message_reports WHERE reporter_id = ${reporter.id} ORDER BY id`

test("REP1: a message is reported with the beginning of its text; again, until it is reviewed, what is said changes", async ({
  shared,
}) => {
  const { sql, east, west } = shared
  const { ada, lin, server, channel } = await shared.seed(sharedServer)
  const channel_id = channel.id
  const text = `${"🐦".repeat(499)}abc`
  const { id: message_id } = await ada.on(east).createMessage({ channel_id, content: text })
  const place = { channel_id, message_id }

  const first = await lin.on(west).reportMessage({ ...place, reason: "Birds", server_id: "7" })
  expect(first).toEqual(submitted)
  const row = {
    id: first.report_id,
    ...place,
    server_id: server.id,
    reported_user_id: ada.id,
    reason: "Birds",
    category: "other",
    details: null,
    message_content: `${"🐦".repeat(499)}a`,
    status: "pending",
    reported_at: expect.any(Number),
  }
  expect(await messageReports(shared, lin)).toEqual([row])

  // Its author cannot change what was seen.
  await ada.on(east).editMessage({ ...place, content: "Harmless" })
  await sql`UPDATE message_reports SET reported_at = 5 WHERE id = ${first.report_id}`
  const said = { reason: "Still birds", category: "spam", details: "Look" } as const
  const again = await Promise.all([east, west, east].map(at => lin.on(at).reportMessage({ ...place, ...said })))
  expect(again.map(({ report_id }) => report_id)).toEqual(Array(3).fill(first.report_id))
  expect(await messageReports(shared, lin)).toEqual([{ ...row, ...said, reported_at: 5 }])

  await sql`UPDATE message_reports SET status = 'dismissed' WHERE id = ${first.report_id}`
  const anew = await lin.on(east).reportMessage({ ...place, reason: "You should look again" })
  expect(anew.report_id).not.toBe(first.report_id)
  expect(await messageReports(shared, lin)).toMatchObject([
    { status: "dismissed", message_content: row.message_content },
    { id: anew.report_id, status: "pending", message_content: "Harmless" },
  ])
  // Others' reports are their own; an author may report what their account was made to say.
  expect((await ada.on(west).reportMessage({ ...place, reason: "It was not me" })).report_id).not.toBe(anew.report_id)
})

test("what a reporter cannot read is not there for them", async ({ shared }) => {
  const { east, west } = shared
  const { ada, lin, server, channel } = await shared.seed(sharedServer)
  const eve = await shared.person("eve")
  const channel_id = channel.id
  const rest = ada.on(east)
  const { id: message_id } = await rest.createMessage({ channel_id, content: "here" })
  const report = (person: Person, place: { channel_id: string; message_id: string }) =>
    person.on(west).reportMessage({ ...place, reason: "Spam" })
  const unknown = plantedId()
  const dm = await dmBetween(ada, lin, east)
  const { id: whispered } = await rest.createMessage({ channel_id: dm, content: "psst" })
  expect(await report(lin, { channel_id: dm, message_id: whispered })).toEqual(submitted)
  expect(await messageReports(shared, lin)).toMatchObject([{ server_id: null, message_content: "psst" }])

  for (const [person, place] of [
    [eve, { channel_id, message_id }],
    [eve, { channel_id: dm, message_id: whispered }],
    [eve, { channel_id: unknown, message_id }],
    [lin, { channel_id, message_id: unknown }],
    [lin, { channel_id: dm, message_id }],
  ] as const)
    expect(await refusal(report(person, place))).toBe("message_not_found")
  await rest.setOverride({ channel_id, target_id: server.id, type: "role", allow: [], deny: ["messages.read"] })
  expect(await refusal(report(lin, { channel_id, message_id }))).toBe("message_not_found")
  await rest.deleteOverride({ channel_id, target_id: server.id })
  await rest.deleteMessage({ channel_id, message_id })
  expect(await refusal(report(lin, { channel_id, message_id }))).toBe("message_not_found")
})

test("users are reported; a report needs a person, a target, and words", async ({ shared }) => {
  const { sql, east, west } = shared
  const { ada, lin, channel } = await shared.seed(sharedServer)
  const { id: message_id } = await ada.on(east).createMessage({ channel_id: channel.id, content: "here" })
  const evidence_message_ids = [message_id, message_id, 5]
  const first = await lin
    .on(east)
    .reportUser({ user_id: ada.id, reason: "Rude", category: "harassment", evidence_message_ids })
  expect(first).toEqual(submitted)
  const again = await lin.on(west).reportUser({ user_id: ada.id, reason: "Very rude", details: "Every day" })
  expect(again).toEqual(first)
  const rows = await sql`
    SELECT id::text AS id, reported_user_id::text AS user_id, reason, category, details, evidence_message_ids::text[] AS evidence, status
    FROM user_reports WHERE reporter_id = ${lin.id}`
  expect(rows).toEqual([
    {
      id: first.report_id,
      user_id: ada.id,
      reason: "Very rude",
      category: "other",
      details: "Every day",
      evidence: [],
      status: "pending",
    },
  ])
  await lin.on(west).reportUser({ user_id: ada.id, reason: "Very rude", evidence_message_ids })
  const [kept] =
    await sql`SELECT evidence_message_ids::text[] AS evidence FROM user_reports WHERE reporter_id = ${lin.id}`
  expect(kept).toEqual({ evidence: [message_id, "5"] })

  const bot = clientAt(west, (await botOf(shared, east, ada)).token)
  const place = { channel_id: channel.id, message_id }
  expect(await refusal(bot.reportMessage({ ...place, reason: "x" }))).toBe("people_only")
  expect(await refusal(bot.reportUser({ user_id: lin.id, reason: "x" }))).toBe("people_only")
  const nobody = clientAt(east)
  expect(await refusal(nobody.reportUser({ user_id: lin.id, reason: "x" }))).toBe("authentication_required")
  expect(await refusal(nobody.reportMessage({ ...place, reason: "x" }))).toBe("authentication_required")

  const rest = lin.on(east)
  expect(await refusal(rest.reportUser({ user_id: lin.id, reason: "x" }))).toBe("cannot_report_yourself")
  expect(await refusal(rest.reportUser({ user_id: plantedId(), reason: "x" }))).toBe("user_not_found")
  const wrongs = [{ reason: "" }, { reason: "x".repeat(501) }, { details: "x".repeat(2001) }, { category: "boring" }]
  for (const wrong of wrongs as object[]) {
    expect(await refusal(rest.reportUser({ user_id: ada.id, reason: "x", ...wrong }))).toBe("validation_failed")
    expect(await refusal(rest.reportMessage({ ...place, reason: "x", ...wrong }))).toBe("validation_failed")
  }
  const many = Array.from({ length: 101 }, () => message_id)
  for (const wrong of [{ user_id: "me" }, { evidence_message_ids: ["me"] }, { evidence_message_ids: many }])
    expect(await refusal(rest.reportUser({ user_id: ada.id, reason: "x", ...wrong }))).toBe("validation_failed")

  await sql`
    INSERT INTO user_reports (id, reported_user_id, reporter_id, reason, category, evidence_message_ids, reported_at)
    SELECT ${plantedId()}::bigint + n, n, ${lin.id}, 'x', 'other', '{}', 1 FROM generate_series(1, 100) n`
  expect(await refusal(rest.reportUser({ user_id: ada.id, reason: "x" }))).toBe("report_limit")
  await rest.reportMessage({ ...place, reason: "x" })
  await sql`
    INSERT INTO message_reports (id, message_id, channel_id, reporter_id, reported_user_id, reason, category, reported_at)
    SELECT ${plantedId()}::bigint + n, n, 1, ${lin.id}, 1, 'x', 'other', 1 FROM generate_series(1, 100) n`
  expect(await refusal(rest.reportMessage({ ...place, reason: "x" }))).toBe("report_limit")
})

test("a message's files are reported with it, and count; what was said of a file itself stays", async ({ shared }) => {
  const { sql, east, west } = shared
  const { ada, lin, channel } = await shared.seed(sharedServer)
  const channel_id = channel.id
  const rest = ada.on(east)
  const [one, other] = [randomBytes(100), randomBytes(100)]
  const upload = (bytes: Buffer) => rest.uploadAttachment({ channel_id, file: fileOf(bytes, "note.dat", "") })
  const uploads = [await upload(one), await upload(one), await upload(other)]
  const { id: message_id } = await rest.createMessage({ channel_id, attachments: uploads })
  const direct = await lin.on(west).reportFile({ hash_value: sum(other), reason: "Loud", block_uploader: true })
  await sql`UPDATE hash_reports SET counts = false WHERE id = ${direct.report_id}`

  await lin.on(west).reportMessage({ channel_id, message_id, reason: "Spam", details: "Look" })
  const reported = async (bytes: Buffer) =>
    sql`SELECT id::text AS id, reason, details, uploader_id::text AS uploader_id, message_id::text AS message_id, attachment_url,
        block_uploader, counts
      FROM hash_reports WHERE hash_value = ${sum(bytes)} AND reporter_id = ${lin.id}`
  const place = {
    uploader_id: ada.id,
    message_id,
    attachment_url: expect.stringMatching(/^\/api\/v1\/media\/attachments\/[0-9a-f]{32}/),
    counts: true,
  }
  expect(await reported(one)).toEqual([
    { id: expect.any(String), reason: "Spam", details: "Look", block_uploader: false, ...place },
  ])
  expect(await reported(other)).toEqual([
    { id: direct.report_id, reason: "Loud", details: null, block_uploader: true, ...place },
  ])
  // A file that is reported again keeps its report, too.
  const again = await lin.on(east).reportFile({ hash_value: sum(other), reason: "Too loud" })
  expect(again.report_id).toBe(direct.report_id)

  const isBlocked = async (bytes: Buffer) => (await rest.getHashStatus({ hash_value: sum(bytes) })).is_blocked
  expect(await isBlocked(one)).toBe(false)
  await ada.on(west).reportMessage({ channel_id, message_id, reason: "My phone sent it" })
  expect([await isBlocked(one), await isBlocked(other)]).toEqual([true, true])
})

test("reports go with the account of their reporter, and with that of whom they are about", async ({ shared }) => {
  const { sql, east } = shared
  const [ada, lin, eve] = [await shared.person("ada"), await shared.person("lin"), await shared.person("eve")]
  const dm = await dmBetween(ada, eve, east)
  const { id: message_id } = await eve.on(east).createMessage({ channel_id: dm, content: "I am Eve" })
  await ada.on(east).reportMessage({ channel_id: dm, message_id, reason: "Rude" })
  await ada.on(east).reportUser({ user_id: eve.id, reason: "Rude" })
  await ada.on(east).reportUser({ user_id: lin.id, reason: "Rude" })
  await eve.on(east).reportUser({ user_id: lin.id, reason: "Rude" })
  await lin.on(east).reportUser({ user_id: ada.id, reason: "Rude" })
  await eve.on(east).deleteAccount({ password: eve.password })
  const left = () => sql`
    SELECT reporter_id::text AS by, reported_user_id::text AS of FROM message_reports
    UNION ALL SELECT reporter_id::text, reported_user_id::text FROM user_reports
    WHERE reporter_id = ANY(${[ada.id, lin.id, eve.id]}::bigint[]) ORDER BY 1`
  await until(
    "Eve's are gone",
    async () => (await sql`SELECT FROM user_reports WHERE reporter_id = ${eve.id}`).length === 0,
  )
  await until("those about Eve are gone", async () => {
    const rows = await sql`
      SELECT FROM message_reports WHERE reported_user_id = ${eve.id} UNION ALL SELECT FROM user_reports WHERE reported_user_id = ${eve.id}`
    return rows.length === 0
  })
  expect((await left()).filter(row => [ada.id, lin.id].includes(row["by"] as string))).toEqual(
    [
      { by: ada.id, of: lin.id },
      { by: lin.id, of: ada.id },
    ].toSorted((a, b) => a.by.localeCompare(b.by)),
  )
  expect(await refusal(ada.on(east).reportUser({ user_id: eve.id, reason: "Rude" }))).toBe("user_not_found")
})
