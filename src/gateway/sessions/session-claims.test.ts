import { expect, test } from "vitest"
import type { SessionRecord } from "../../cluster/session-record.ts"
import type { AccessSession } from "../../cluster/tokens.ts"
import { systemClock } from "../../std/system-clock.ts"
import { NotResumable, SessionClaims, type SessionClaimsOptions } from "./session-claims.ts"

const record = {
  id: "session",
  worker: "gone",
  user: "ada",
  accessSession: "first login",
  spans: [{ log: "gone", lo: 1, hi: null, counted: false, since: 0 }],
} as unknown as SessionRecord
const login = (session_id: string) => ({ user_id: "ada", session_id }) as AccessSession

/** Where only these logins have not ended. */
function claimsWith(...known: string[]) {
  const claimed: string[] = []
  const claims = new SessionClaims({
    self: "here",
    subscriptions: { byId: new Map() },
    records: {
      onLoss() {},
      load: async () => record,
      claim: async (_: string, from: string) => claimed.push(from) > 0,
    },
    bus: { handle() {} },
    peerLogs: { positionAt: async (_: unknown, seq: number) => seq, ends: async () => ({ oldest: 1, last: 9 }) },
    isLiving: () => false,
    known: async (session: string) => (known.includes(session) ? login(session) : undefined),
    clock: systemClock,
  } as unknown as SessionClaimsOptions)
  return { claims, claimed }
}

test("P6, P12: a session ends with the login that had it last: another login of the user cannot resume it after that", async () => {
  const ended = claimsWith("second login")
  await expect(ended.claims.claim("session", login("second login"), 5)).rejects.toThrow(NotResumable)
  expect(ended.claimed).toEqual([])
  const both = claimsWith("first login", "second login")
  expect(await both.claims.claim("session", login("second login"), 5)).toMatchObject({ origin: "dead_worker" })
  // Its own login has just been verified.
  const own = claimsWith()
  expect(await own.claims.claim("session", login("first login"), 5)).toMatchObject({ origin: "dead_worker" })
  expect(both.claimed).toEqual(["gone"])
})
