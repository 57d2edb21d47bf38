import { expect, test } from "vitest"
import { sending, Story } from "./history-of.ts"
import { revocation } from "./revocation.ts"

const eve = { client: "eve", session: "eve#0" } as const
const refused = { ...eve, type: "fail", status: 401 } as const
const loggedOut = () => new Story().ready().send("1").hear("1").done({ do: "logout" }, eve)
const left = () =>
  new Story().ready().done({ do: "join", server: "s" }, eve).send("1").hear("1").done({ do: "leave", server: "s" }, eve)

test("P12: after a logout everything is refused, and a read may be late", () => {
  const story = loggedOut()
    .done({ do: "look" }, eve)
    .done(sending("m2"), refused)
    .wait(1_100)
    .done({ do: "look" }, refused)
  expect(revocation(story.history)).toEqual([])
})

test("P12: a late use of a revoked token is found: a write at once, a read after a second", () => {
  expect(revocation(loggedOut().send("2", eve).history)).toHaveLength(1)
  expect(revocation(loggedOut().wait(1_100).done({ do: "look" }, eve).history)).toHaveLength(1)
})

test("P12: an event that was sent after the logout is found; one that was sent before may come", () => {
  expect(revocation(loggedOut().hear("1", { session: "eve/2" }).history)).toEqual([])
  expect(revocation(loggedOut().send("2").hear("2").history)).toHaveLength(1)
})

test("P12: after a leave neither writes nor events, until the next join", () => {
  expect(revocation(left().done(sending("m2"), refused).history)).toEqual([])
  expect(revocation(left().send("2", eve).history)).toHaveLength(1)
  expect(revocation(left().send("2").hear("2").history)).toHaveLength(1)
  const back = left().done({ do: "join", server: "s" }, eve).send("2", eve).hear("2")
  expect(revocation(back.history)).toEqual([])
})
