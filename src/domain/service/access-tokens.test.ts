import { expect, test } from "vitest"
import { AccessTokens, type AccessToken } from "./access-tokens.ts"
import { parseAddress } from "../core/client-address.ts"

const token = (id: string, rest: Partial<AccessToken> = {}): AccessToken => ({
  id,
  token_hash: `hash of ${id}`,
  mode: "none",
  scopes: [],
  expires_at: null,
  ...rest,
})
const here = parseAddress("192.0.2.7")!
const now = 1_000

test("without tokens everybody is let in, whatever is presented", () => {
  const none = new AccessTokens([])
  expect(none.judge(undefined, here, now)).toEqual({ isOpen: true })
  expect(none.judge("anything", here, now)).toEqual({ isOpen: true })
})

test("with one, it is asked for, and only it lets in", () => {
  const tokens = new AccessTokens([token("1")])
  expect(tokens.judge(undefined, here, now)).toEqual({ isOpen: false, refusal: "access_token_required" })
  expect(tokens.judge("hash of 2", here, now)).toEqual({ isOpen: false, refusal: "invalid_access_token" })
  expect(tokens.judge("hash of 1", here, now)).toEqual({ isOpen: true })
})

test("a token whose time is over lets nobody in and keeps the gate shut", () => {
  const tokens = new AccessTokens([token("1", { expires_at: now })])
  expect(tokens.judge("hash of 1", here, now - 1)).toEqual({ isOpen: true })
  expect(tokens.judge("hash of 1", here, now)).toEqual({ isOpen: false, refusal: "invalid_access_token" })
  expect(tokens.judge(undefined, here, now)).toEqual({ isOpen: false, refusal: "access_token_required" })
})

test("ranges are for the log where they are watched, and for refusing where they are enforced", () => {
  const scopes = ["192.0.2.0/29", "2001:db8::/32"]
  const tokens = new AccessTokens([
    token("free", { scopes }),
    token("watched", { scopes, mode: "monitor" }),
    token("bound", { scopes, mode: "enforce" }),
    token("nowhere", { mode: "enforce" }),
  ])
  const from = (id: string, address: string) => tokens.judge(`hash of ${id}`, parseAddress(address)!, now)
  const refused = { isOpen: false, refusal: "invalid_access_token" }
  for (const inside of ["192.0.2.0", "192.0.2.7", "2001:db8:1::1", "::ffff:192.0.2.3"]) {
    for (const id of ["free", "watched", "bound"]) expect(from(id, inside)).toEqual({ isOpen: true })
    expect(from("nowhere", inside)).toEqual(refused)
  }
  for (const outside of ["192.0.2.8", "192.0.1.255", "2001:db9::1"]) {
    expect(from("free", outside)).toEqual({ isOpen: true })
    expect(from("watched", outside)).toEqual({ isOpen: true, outside: "watched" })
    expect(from("bound", outside)).toEqual(refused)
  }
})
