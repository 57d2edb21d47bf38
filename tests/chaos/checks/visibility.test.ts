import { expect, test } from "vitest"
import { Story } from "./history-of.ts"
import { revocation } from "./revocation.ts"
import { visibility } from "./visibility.ts"

const owner = { client: "ada" } as const
const hide = { do: "hide", channel: "c", from: "eve", how: "role" } as const
const show = { ...hide, do: "show" } as const
const kick = { do: "remove", server: "s", from: "eve", how: "kick" } as const
const found = (story: Story) => visibility(story.history).map(({ what }) => what)

/** Eve sees 1, not 2, and 3 again. */
const hidden = () =>
  new Story().ready().send("1").hear("1").done(hide, owner).send("2").done(show, owner).send("3").hear("3")

test("P13: what is hidden does not arrive, and what is seen does", () => {
  expect(found(hidden().wait(1_100).say("end"))).toEqual([])
})

test("P13: a view that is stale after a role was changed is found, also when the event comes late", () => {
  const live = new Story().ready().send("1").hear("1").done(hide, owner).send("2").hear("2")
  expect(found(live)).toEqual(["eve's got 2, sent after c was hidden from them"])
  const late = new Story().ready().send("1").hear("1").done(hide, owner).send("2").done(show, owner).hear("2")
  expect(found(late)).toEqual(["eve's got 2, sent after c was hidden from them"])
})

test("P12, P13: a gateway that ignores a kick is found", () => {
  const story = () => new Story().ready().send("1").hear("1").done(kick, owner).send("2").hear("2")
  expect(found(story())).toEqual(["eve's got 2, sent after c was hidden from them"])
  expect(revocation(story().history)).toHaveLength(1)
  const back = new Story()
    .ready()
    .send("1")
    .hear("1")
    .done(kick, owner)
    .send("2")
    .done({ do: "join", server: "s" }, { client: "eve" })
    .send("3")
    .hear("3")
  expect(found(back)).toEqual([])
})

test("P13: a message into what is hidden, or from outside, is found when it is accepted", () => {
  const sends = (change: typeof hide | typeof kick) =>
    new Story().send("1").done(change, owner).send("2", { client: "eve", session: "eve#0" })
  expect(found(sends(hide))).toHaveLength(1)
  expect(revocation(sends(kick).history)).toHaveLength(1)
})

test("P13: a hole for somebody who sees the channel is found, before and after it was hidden", () => {
  expect(found(new Story().ready().send("1").send("2").hear("2").done(hide, owner))).toEqual([
    "session eve/1 missed 1 in c, which it sees",
  ])
  const after = hidden().send("4").send("5").hear("5").wait(1_100).say("end")
  expect(found(after)).toEqual(["session eve/1 missed 4 in c, which it sees"])
  const last = hidden().send("4").wait(1_100).say("end")
  expect(found(last)).toEqual(["session eve/1 missed 4 in c, which it sees"])
})

test("P13: while a change is under way, and after one without an answer, either is right", () => {
  const underWay = new Story().ready()
  const op = underWay.invoke(hide, owner)
  expect(found(underWay.send("1").hear("1").end(op, "ok", 200))).toEqual([])
  const unknown = new Story()
    .ready()
    .done(hide, { ...owner, type: "maybe", status: 503 })
    .done(show, owner)
  expect(found(unknown.send("1").send("2").hear("2").done(hide, owner))).toEqual([])
})
