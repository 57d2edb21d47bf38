import { expect, test } from "vitest"
import { AccessUses, type PlacedUse } from "./access-uses.ts"

const use = (rest: Partial<PlacedUse> = {}): PlacedUse => ({
  token: "1",
  allowed: true,
  scope_match: true,
  reject_reason: null,
  used_at: 100,
  ip_address: "192.0.2.1",
  user_agent: "app",
  method: "GET",
  path: "/api/v1/users/@me",
  ...rest,
})

test("uses are summed up by token, by address and by route, in the order of their keys", () => {
  const uses = new AccessUses()
  uses.note(use({ token: "2", path: null, method: null }))
  uses.note(use())
  uses.note(use({ used_at: 105, ip_address: "192.0.2.2" }))
  uses.note(use({ used_at: 107, allowed: false, reject_reason: "expired" }))
  const { tokens, addresses, paths, events } = uses.take()
  expect(
    tokens.map(({ token, requests, denied, first_at, last_seen_at, latest }) => [
      token,
      requests,
      denied,
      first_at,
      last_seen_at,
      latest!.used_at,
    ]),
  ).toEqual([
    ["1", 3, 1, 100, 107, 105],
    ["2", 1, 0, 100, 100, 100],
  ])
  expect(addresses.map(({ token, ip_address, requests, denied }) => [token, ip_address, requests, denied])).toEqual([
    ["1", "192.0.2.1", 2, 1],
    ["1", "192.0.2.2", 1, 0],
    ["2", "192.0.2.1", 1, 0],
  ])
  expect(paths.map(({ token, method, path, requests }) => [token, method, path, requests])).toEqual([
    ["1", "GET", "/api/v1/users/@me", 3],
    ["2", "", "", 1],
  ])
  expect(events.map(({ token, used_at }) => [token, used_at])).toEqual([
    ["2", 100],
    ["1", 100],
    ["1", 105],
    ["1", 107],
  ])
  expect(uses.isEmpty).toBe(true)
  expect(uses.take()).toEqual({ tokens: [], addresses: [], paths: [], events: [] })
})

test("a multitude of addresses, of routes and of uses is counted, and only so many of each are told apart", () => {
  const uses = new AccessUses()
  for (let i = 0; i < 10_000; i++) uses.note(use({ ip_address: `192.0.2.${i}`, path: `/${i}` }))
  for (let i = 0; i < 20; i++) for (let j = 0; j < 100; j++) uses.note(use({ token: `t${i}` }))
  const { tokens, addresses, paths, events } = uses.take()
  expect(tokens.map(({ requests }) => requests)).toEqual([10_000, ...Array<number>(20).fill(100)])
  expect([addresses.length, paths.length, events.length]).toEqual([2_000, 2_000, 500])
  expect(events.filter(({ token }) => token === "1")).toHaveLength(100)
})
