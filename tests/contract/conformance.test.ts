import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { onTestFinished } from "vitest"
import { routes } from "../../src/contract/contract.ts"
import { allIntents } from "../../src/contract/core/intents.ts"
import { checkReply, frameCheck, takeBreaches, watchFrames } from "../kit/conformance.ts"
import { missingIn, Sightings } from "../kit/coverage.ts"
import { expect, test } from "../kit/test.ts"

/** What the check says of something that is wrong; a check that was never red proves nothing. */
function breachOf(check: () => unknown): string {
  expect(check).toThrow()
  const found = takeBreaches()
  expect(found).toHaveLength(1)
  return found[0]!
}

test("a reply with a missing, a wrong or an undeclared key is noticed, and a refusal that is not declared", () => {
  const good = { status: "healthy", version: "1" }
  for (const bad of [{}, { ...good, version: 1 }, { ...good, secret: "x" }, null, Symbol("not JSON")])
    expect(breachOf(() => checkReply(routes.getHealth, 200, bad))).toContain("getHealth")

  const refusal = (code: unknown, message: string) => ({ error: { code, message } })
  const refused = (status: number, body: unknown) => breachOf(() => checkReply(routes.getUser, status, body))
  expect(refused(404, refusal(404, "Channel not found"))).toMatch(/getUser does not declare/)
  expect(refused(400, refusal(404, "User not found"))).toMatch(/getUser does not declare/)
  expect(refused(500, refusal(500, "Internal server error"))).toMatch(/getUser does not declare/)
  expect(refused(404, refusal("404", "User not found"))).toMatch(/the body of user_not_found/)
  expect(refused(404, { ...refusal(404, "User not found"), stack: "at" })).toMatch(/the body of user_not_found/)
  expect(refused(422, refusal(422, "Invalid x: y"))).toMatch(/the body of validation_failed/)
  expect(refused(429, refusal(429, "You are being rate limited"))).toMatch(/the body of rate_limited/)
  expect(refused(404, "Not Found")).toMatch(/without a standard body/)
})

test("a frame with an unknown op, event or field, a falling s, or an intent that nobody asked for is noticed", () => {
  const typing = { channel_id: "1", user_id: "2", username: "ada", server_id: "3", guild_id: "3" }
  const event = { op: 0, t: "TYPING_START", s: 5, d: typing }
  const after = (...frames: Parameters<ReturnType<typeof frameCheck>>[0][]) => {
    const check = frameCheck(allIntents)
    for (const frame of frames.slice(0, -1)) check(frame)
    return breachOf(() => check(frames.at(-1)!))
  }
  expect(after({ op: 99 })).toMatch(/op 99/)
  expect(after({ op: 1 })).toMatch(/op 1/)
  expect(after({ op: 10, d: {} })).toMatch(/HELLO/)
  expect(after({ op: 11, s: 3 })).toMatch(/HEARTBEAT_ACK carries/)
  expect(after({ ...event, t: "NONSENSE" })).toMatch(/NONSENSE/)
  expect(after({ ...event, d: { ...typing, password: "x" } })).toMatch(/undeclared keys/)
  expect(after({ ...event, d: { ...typing, user_id: 2 } })).toMatch(/user_id/)
  expect(after(event, { ...event, s: 4 })).toMatch(/s 4 after 5/)
  expect(breachOf(() => frameCheck(0)(event))).toMatch(/intent/)
})

test("a client that breaks the protocol is watched too: its intents are those of its IDENTIFY, and a close code must be declared", () => {
  const typing = { channel_id: "1", user_id: "2", username: "ada", server_id: "3", guild_id: "3" }
  const event = { op: 0, t: "TYPING_START", s: 5, d: typing }
  const watch = watchFrames()
  watch.received(event)
  expect(takeBreaches()).toEqual([])
  watch.sent({ op: 2, d: { token: "x", intents: 0 } })
  watch.received(event)
  expect(takeBreaches()).toEqual([expect.stringMatching(/intent is not in 0/)])
  for (const nonsense of [null, "{", Uint8Array.of(1), { op: "x" }, { op: 2 }, { op: 2, d: null }]) watch.sent(nonsense)
  watch.closed(4008, "Rate limited")
  watch.closed(1006, "")
  expect(takeBreaches()).toEqual([])
  watch.closed(4008, "Something else")
  expect(takeBreaches()).toEqual([expect.stringMatching(/4008 "Something else"/)])
})

test("what no test has seen of the contract is listed", async () => {
  const folder = await mkdtemp(join(tmpdir(), "starling-sightings-"))
  onTestFinished(() => rm(folder, { recursive: true }))
  const all = missingIn(folder)
  expect(all).toEqual(
    expect.arrayContaining([
      "answers getMe",
      "fails getUser user_not_found",
      "event READY",
      "error validation_failed",
      "sends IDENTIFY",
      "hears HELLO",
      "closes rate_limited",
    ]),
  )
  new Sightings(folder).note("fails", "getUser", "user_not_found")
  new Sightings(folder).note("event", "READY")
  expect(missingIn(folder)).toEqual(all.filter(line => !/^(fails getUser user_not_found|event READY)$/.test(line)))
})
