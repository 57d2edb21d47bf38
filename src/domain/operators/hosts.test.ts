import { expect, test } from "vitest"
import { parseAddress, parseRange } from "../core/client-address.ts"
import { hostRanges, isHost, mayEnter } from "./hosts.ts"

const proxies = ["192.0.2.1", "192.0.2.2", "127.0.0.1"].map(text => parseRange(text)!)

interface From {
  readonly peer: string
  readonly forwardedFor?: string
  readonly realIp?: string
  readonly forwarded?: string
}
const enters = (
  { peer, forwardedFor, realIp, forwarded }: From,
  hosts: readonly string[] | "every" = ["127.0.0.1", "localhost", "::1", "10.0.0.0/9", "2001:db8::/33"],
  trusted = false,
) =>
  mayEnter(
    { peer: parseAddress(peer)!, forwardedFor, realIp, forwarded },
    { trustedProxies: trusted ? proxies : [], allowed: hosts === "every" ? undefined : hostRanges(hosts) },
  )

test("hosts are addresses, ranges and this machine", () => {
  expect(["10.0.0.0/9", "::1", "LOCALHOST", "::ffff:10.0.0.1"].map(isHost)).toEqual([true, true, true, true])
  expect(["example.com", "", "10.0.0.0/33", "10.0.0", "10.0.0.0/-1"].map(isHost)).toEqual(Array(5).fill(false))
})

test("a range holds its members, not what is written like them", () => {
  for (const peer of ["10.0.0.1", "10.127.255.255", "2001:db8:7fff:ffff::1", "127.0.0.1", "127.8.8.8", "::1"])
    expect([peer, enters({ peer })]).toEqual([peer, true])
  for (const peer of ["10.128.0.0", "100.0.0.1", "2001:db8:8000::", "2001:db80::1", "192.0.2.1"])
    expect([peer, enters({ peer })]).toEqual([peer, false])
  expect(enters({ peer: "::ffff:10.0.0.1" })).toBe(true)
  expect(enters({ peer: "192.0.2.77" }, "every")).toBe(true)
})

test("AREA1: nobody gets in by what a header says, where no trusted proxy sent it", () => {
  const claims = ["10.0.0.1", "127.0.0.1", "::1", "[::1]:80", "10.0.0.1, 10.0.0.2", "unknown"]
  for (const claim of claims)
    for (const header of ["forwardedFor", "realIp"] as const)
      expect([claim, enters({ peer: "203.0.113.9", [header]: claim })]).toEqual([claim, false])
  expect(enters({ peer: "203.0.113.9", forwarded: "for=10.0.0.1" })).toBe(false)
  // A claim to be this machine is refused wherever it comes from, restriction or not.
  for (const claim of ["127.0.0.1", "::1", "203.0.113.1, 127.0.0.2"]) {
    expect(enters({ peer: "10.0.0.1", forwardedFor: claim })).toBe(false)
    expect(enters({ peer: "203.0.113.9", forwardedFor: claim }, "every")).toBe(false)
  }
  expect(enters({ peer: "10.0.0.1", forwardedFor: "203.0.113.1" })).toBe(true)
})

test("AREA2: a proxy on this machine that is not trusted speaks for somebody else", () => {
  expect(enters({ peer: "127.0.0.1", forwardedFor: "127.0.0.1" })).toBe(true)
  expect(enters({ peer: "127.0.0.1", forwardedFor: "203.0.113.9" })).toBe(false)
  expect(enters({ peer: "127.0.0.1", forwardedFor: "127.0.0.1, 203.0.113.9" })).toBe(false)
  expect(enters({ peer: "127.0.0.1", forwardedFor: "unknown" })).toBe(false)
  expect(enters({ peer: "::1", realIp: "10.0.0.1" })).toBe(false)
  expect(enters({ peer: "::1", forwarded: 'proto=https;For="[2001:db8::1]:4711", for=127.0.0.1' })).toBe(false)
  expect(enters({ peer: "::1", forwarded: "proto=https;for=127.0.0.1;host=for=9.9.9.9" })).toBe(true)
})

test("AREA3: behind trusted proxies the last hop that is none of them counts", () => {
  const behind = (forwardedFor: string) => enters({ peer: "192.0.2.1", forwardedFor }, undefined, true)
  expect(behind("10.0.0.1")).toBe(true)
  expect(behind("203.0.113.9, 10.0.0.1, 192.0.2.2")).toBe(true)
  expect(behind("127.0.0.1")).toBe(true)
  expect(behind("10.0.0.1:4711, 192.0.2.2")).toBe(true)
  expect(behind("10.0.0.1, 203.0.113.9")).toBe(false)
  expect(behind("127.0.0.1, 203.0.113.9, 192.0.2.2")).toBe(false)
  for (const nobody of ["unknown", "", "10.0.0.1, _hidden, 192.0.2.2", "10.0.0.1,"])
    expect([nobody, behind(nobody)]).toEqual([nobody, false])
})

test("AREA3: a trusted proxy that names its client in a header that is not read speaks for nobody", () => {
  const hosts = ["127.0.0.1", "192.0.2.1"]
  expect(enters({ peer: "127.0.0.1" }, hosts, true)).toBe(true)
  for (const named of [{ realIp: "203.0.113.9" }, { realIp: "127.0.0.1" }, { forwarded: "for=203.0.113.9" }])
    expect([named, enters({ peer: "127.0.0.1", ...named }, hosts, true)]).toEqual([named, false])
  expect(enters({ peer: "127.0.0.1", realIp: "203.0.113.9", forwardedFor: "192.0.2.1" }, hosts, true)).toBe(true)
})
