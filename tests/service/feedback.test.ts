import { refusal } from "../kit/conformance.ts"
import { botOf } from "../kit/everything.ts"
import { send } from "../kit/exchange.ts"
import { clientAt } from "../kit/person.ts"
import { plantedId } from "../kit/seeds.ts"
import { expect, testWith } from "../kit/test.ts"
import { routes } from "../../src/contract/contract.ts"

const test = testWith()
const content = "All is well here"

test("FDB1: five texts in an hour and twenty in a day, whichever workers they come to", async ({ shared }) => {
  const { sql, east, west } = shared
  const [ada, lin] = [await shared.person("ada"), await shared.person("lin")]
  const status = () => Promise.all([east, west].map(at => ada.on(at).getFeedbackStatus()))
  const said = { enabled: true, max_per_hour: 5, max_per_day: 20 }
  const nothing = { ...said, submissions_this_hour: 0, submissions_today: 0, can_submit: true }
  expect(await status()).toEqual([nothing, nothing])

  const sent = await Promise.allSettled(
    Array.from({ length: 8 }, (_, i) =>
      ada.on(i % 2 === 0 ? east : west).sendFeedback({ content, category: "praise", rating: 5 }),
    ),
  )
  const granted = sent.flatMap(answer => (answer.status === "fulfilled" ? [answer.value] : []))
  expect(granted).toHaveLength(5)
  for (const answer of granted)
    expect(answer).toEqual({ id: expect.any(String), message: "Feedback submitted successfully" })
  for (const answer of sent)
    if (answer.status === "rejected")
      expect(await refusal(Promise.reject(answer.reason as Error))).toBe("feedback_limit")
  const full = { ...said, submissions_this_hour: 5, submissions_today: 5, can_submit: false }
  expect(await status()).toEqual([full, full])
  const refused = await send(west, "/api/v1/feedback", {
    route: routes.sendFeedback,
    token: ada.token,
    body: { content },
  })
  const wait = Number(refused.headers.get("retry-after"))
  expect([refused.status, wait > 3_300, wait < 3_700]).toEqual([429, true, true])
  const rows = await sql`SELECT content, category, rating, status FROM feedback WHERE user_id = ${ada.id}`
  expect(rows).toEqual(Array.from({ length: 5 }, () => ({ content, category: "praise", rating: 5, status: "open" })))

  const now = Math.floor(Date.now() / 1000)
  await sql`
    INSERT INTO feedback (id, user_id, content, created_at)
    SELECT ${plantedId()}::bigint + n, ${lin.id}, 'Earlier, today', ${now}::bigint - 3600 * n FROM generate_series(2, 21) n`
  expect(await lin.on(east).getFeedbackStatus()).toMatchObject({
    submissions_this_hour: 0,
    submissions_today: 20,
    can_submit: false,
  })
  expect(await refusal(lin.on(west).sendFeedback({ content }))).toBe("feedback_limit")
})

test("feedback has words, comes from people, and can be switched off", async ({ shared, cluster }) => {
  const ada = await shared.person("ada")
  const bot = clientAt(shared.west, (await botOf(shared, shared.east, ada)).token)
  const nobody = clientAt(shared.east)
  for (const [client, code] of [
    [bot, "people_only"],
    [nobody, "authentication_required"],
  ] as const) {
    expect(await refusal(client.sendFeedback({ content }))).toBe(code)
    expect(await refusal(client.getFeedbackStatus())).toBe(code)
  }
  const wrongs = [
    { content: "Too short" },
    { content: "x".repeat(2001) },
    { rating: 0 },
    { rating: 6 },
    { rating: 1.5 },
  ]
  for (const wrong of [...wrongs, { category: "x".repeat(51) }])
    expect(await refusal(ada.on(shared.east).sendFeedback({ content, ...wrong }))).toBe("validation_failed")
  expect(await ada.on(shared.east).getFeedbackStatus()).toMatchObject({ submissions_today: 0 })

  const [off] = await cluster.boot(1, { config: { STARLING_FEEDBACK_ENABLED: "false" } })
  const lin = await cluster.person("lin")
  expect(await refusal(lin.on(off!).sendFeedback({ content }))).toBe("feedback_disabled")
  expect(await lin.on(off!).getFeedbackStatus()).toMatchObject({ enabled: false, can_submit: false })
})
