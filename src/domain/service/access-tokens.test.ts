import { expect, test } from "vitest"
import { AccessTokens, scopeValue, type AccessToken } from "./access-tokens.ts"
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

const used = (id: string) => ({ token: id, allowed: true, scope_match: true, reject_reason: null })
const letIn = (id: string) => ({ use: used(id) })
const refused = { refusal: "invalid_access_token" }

test("without tokens everybody is let in, whatever is presented", () => {
  const none = new AccessTokens([])
  expect(none.judge(undefined, here, now)).toEqual({})
  expect(none.judge("anything", here, now)).toEqual({})
})

test("with one, it is asked for, and only it lets in", () => {
  const tokens = new AccessTokens([token("1")])
  expect(tokens.judge(undefined, here, now)).toEqual({ refusal: "access_token_required" })
  expect(tokens.judge("hash of 2", here, now)).toEqual(refused)
  expect(tokens.judge("hash of 1", here, now)).toEqual(letIn("1"))
})

test("a token whose time is over lets nobody in and keeps the gate shut", () => {
  const tokens = new AccessTokens([token("1", { expires_at: now })])
  expect(tokens.judge("hash of 1", here, now - 1)).toEqual(letIn("1"))
  const use = { token: "1", allowed: false, scope_match: null, reject_reason: "expired" }
  expect(tokens.judge("hash of 1", here, now)).toEqual({ ...refused, use })
  expect(tokens.judge(undefined, here, now)).toEqual({ refusal: "access_token_required" })
})

test("scopes mark a use where they are watched, and refuse it where they are enforced", () => {
  const scopes = ["192.0.2.0/29", "2001:db8::/32"]
  const tokens = new AccessTokens([
    token("free", { scopes }),
    token("watched", { scopes, mode: "monitor" }),
    token("watched nowhere", { mode: "monitor" }),
    token("bound", { scopes, mode: "enforce" }),
    token("nowhere", { mode: "enforce" }),
  ])
  const from = (id: string, address: string) => tokens.judge(`hash of ${id}`, parseAddress(address)!, now)
  const denied = (id: string) => ({
    ...refused,
    use: { token: id, allowed: false, scope_match: false, reject_reason: "ip_scope_denied" },
  })
  for (const inside of ["192.0.2.0", "192.0.2.7", "2001:db8:1::1", "::ffff:192.0.2.3"]) {
    for (const id of ["free", "watched", "watched nowhere", "bound"]) expect(from(id, inside)).toEqual(letIn(id))
    expect(from("nowhere", inside)).toEqual(denied("nowhere"))
  }
  for (const outside of ["192.0.2.8", "192.0.1.255", "2001:db9::1"]) {
    for (const id of ["free", "watched nowhere"]) expect(from(id, outside)).toEqual(letIn(id))
    expect(from("watched", outside)).toEqual({ use: { ...used("watched"), scope_match: false } })
    expect(from("bound", outside)).toEqual(denied("bound"))
  }
})

test("a scope is one address, or a network", () => {
  for (const [type, text, value] of [
    ["ip", "192.0.2.7", "192.0.2.7"],
    ["ip", "::ffff:192.0.2.7", "192.0.2.7"],
    ["ip", "2001:DB8:0::1", "2001:db8::1"],
    ["ip", "192.0.2.0/24", undefined],
    ["ip", "somewhere", undefined],
    ["cidr", "192.0.2.77/24", "192.0.2.0/24"],
    ["cidr", "192.0.2.7", "192.0.2.7/32"],
    ["cidr", "2001:db8::1/32", "2001:db8::/32"],
    ["cidr", "192.0.2.0/33", undefined],
  ] as const)
    expect([type, text, scopeValue(type, text)]).toEqual([type, text, value])
})
