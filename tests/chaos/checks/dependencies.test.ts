import { expect, test } from "vitest"
import { dependencies } from "./dependencies.ts"
import { sending, Story } from "./history-of.ts"

const refused = { type: "maybe", status: 503, retryAfterSeconds: 1 } as const
const away = (during: (story: Story) => void) =>
  new Story().send("1").fault("postgres paused", "dependency", story => {
    during(story)
    story.wait(100)
  })

test("P11: refused in time while it is away, accepted soon after", () => {
  const story = away(story => story.done(sending("m2"), refused).done({ do: "livez" }))
  expect(dependencies(story.send("3").wait(11_000).counters({}).history)).toEqual([])
})

test("P11: an answer that takes longer than five seconds is found", () => {
  const story = away(story => {
    const op = story.invoke(sending("m2"))
    story.wait(5_500).end(op, "maybe", 0)
  })
  expect(dependencies(story.history)).toHaveLength(1)
})

test("P11: a slow answer while a worker is paused, too, is not counted", () => {
  const story = new Story()
    .fault("event loop stalled", "worker", () => {})
    .fault("postgres paused", "dependency", story => {
      const op = story.invoke(sending("m2"))
      story.wait(5_500).end(op, "maybe", 0)
    })
  expect(dependencies(story.history)).toEqual([])
})

test("P11: a 503 without Retry-After, a 500, and another kind of 5xx are found", () => {
  for (const status of [500, 502, 503])
    expect(dependencies(new Story().done(sending("m2"), { type: "maybe", status }).history)).toHaveLength(1)
})

test("P11: a process that says it is dead is found", () => {
  const story = away(story => story.done({ do: "livez" }, { type: "maybe", status: 503, retryAfterSeconds: 1 }))
  expect(dependencies(story.history)).toHaveLength(1)
})

test("P11: one channel of two that does not heal within ten seconds is found", () => {
  const story = away(() => {})
    .send("3")
    .done(sending("m2", "d"), refused)
    .wait(10_500)
    .send("4")
  expect(dependencies(story.history).map(({ what }) => what)).toEqual([
    "d accepted nothing for 10 s after postgres paused was over",
  ])
})

test("P11: what does not heal within ten seconds is found", () => {
  const story = away(() => {})
    .done(sending("m2"), refused)
    .wait(10_500)
    .send("3")
  expect(dependencies(story.history)).toHaveLength(1)
})
