import { describe, expect, test } from "vitest"
import { AddressBlocks, mayBlock } from "./address-blocks.ts"
import { formatRange, parseAddress, parseRange } from "../core/client-address.ts"

const written = (text: string) => {
  const range = parseRange(text)
  return range && formatRange(range)
}

describe("an address or a range is written in one way", () => {
  test.each([
    ["203.0.113.7", "203.0.113.7"],
    ["203.0.113.7/32", "203.0.113.7"],
    ["203.0.113.7/24", "203.0.113.0/24"],
    ["203.0.113.255/31", "203.0.113.254/31"],
    ["0.0.0.0/0", "0.0.0.0/0"],
    ["2001:DB8:0:0::0001", "2001:db8::1"],
    ["2001:db8::1/128", "2001:db8::1"],
    ["2001:db8:1:2:3::/64", "2001:db8:1:2::/64"],
    ["2001:db8:ffff::/33", "2001:db8:8000::/33"],
    ["::ffff:203.0.113.7", "203.0.113.7"],
    ["::ffff:203.0.113.7/120", "203.0.113.0/24"],
  ])("%s", (text, expected) => expect(written(text)).toBe(expected))

  test.each(["", "/", "203.0.113", "203.0.113.7/33", "203.0.113.7/-1", "203.0.113.7/", "203.0.113.7/8/8", "203.0.113.7/08",
    "203.0.113.0/x", "2001:db8::/129", "::ffff:203.0.113.7/90", "fe80::1%eth0", "localhost", "*"])("not %s", text =>
    expect(parseRange(text)).toBeUndefined(),
  ) // prettier-ignore
})

test("an operator blocks neither the machine itself nor their own address", () => {
  const own = parseAddress("198.51.100.4")!
  for (const text of ["127.0.0.1", "127.9.9.9", "127.0.0.0/8", "126.0.0.0/7", "0.0.0.0/0", "::1", "::/0", "::/127"])
    expect([text, mayBlock(parseRange(text)!)]).toEqual([text, false])
  for (const text of ["198.51.100.4", "198.51.100.0/24"]) {
    expect(mayBlock(parseRange(text)!, own)).toBe(false)
    expect(mayBlock(parseRange(text)!)).toBe(true)
  }
  for (const text of ["198.51.100.5", "128.0.0.0/8", "2001:db8::/32", "::2"])
    expect([text, mayBlock(parseRange(text)!, own)]).toEqual([text, true])
})

describe("what is blocked", () => {
  const blocks = new AddressBlocks([
    { address: "203.0.113.7", expires_at: null },
    { address: "198.51.100.0/24", expires_at: null },
    { address: "198.51.100.128/25", expires_at: 500 },
    { address: "2001:db8:1:2::/64", expires_at: null },
    { address: "2001:db8:9::1", expires_at: 1_000 },
    { address: "10.0.0.0/8", expires_at: 1_000 },
  ])
  const has = (text: string, now = 999) => blocks.has(parseAddress(text)!, now)

  test.each(["203.0.113.7", "::ffff:203.0.113.7", "198.51.100.0", "198.51.100.255", "2001:db8:1:2::", "2001:db8:1:2:ffff::9",
    "2001:db8:9::1", "10.255.255.255"])("%s", text => expect(has(text)).toBe(true)) // prettier-ignore
  test.each([
    "203.0.113.6",
    "203.0.113.8",
    "198.51.99.255",
    "198.51.101.0",
    "2001:db8:1:3::",
    "2001:db8:9::2",
    "11.0.0.0",
    "::",
  ])("not %s", text => expect(has(text)).toBe(false))

  test("a block ends by itself; a longer one around it goes on", () => {
    expect(has("10.1.2.3", 1_000)).toBe(false)
    expect(has("2001:db8:9::1", 1_000)).toBe(false)
    expect(has("198.51.100.200", 501)).toBe(true)
  })

  test("the sixteen bytes of a mapped address are the IPv4 address", () => {
    const bytes = new Uint8Array(16)
    bytes.set([255, 255, 203, 0, 113, 7], 10)
    expect(blocks.has(bytes, 0)).toBe(true)
  })

  test("nobody, where there is none", () => {
    const none = new AddressBlocks([])
    expect([none.isEmpty, none.has(parseAddress("203.0.113.7")!, 0)]).toEqual([true, false])
  })
})
