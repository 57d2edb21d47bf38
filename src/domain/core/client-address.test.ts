import { expect, test } from "vitest"
import {
  addressOf,
  clientAddress,
  formatAddress,
  limitedAddress,
  parseAddress,
  prefix48,
  prefix56,
  trustedProxies,
} from "./client-address.ts"

const format = (text: string) => {
  const address = parseAddress(text)
  return address && formatAddress(address)
}

test("addresses are read and written", () => {
  expect(format("192.0.2.1")).toBe("192.0.2.1")
  expect(format("2001:db8:0:0:1:0:0:1")).toBe("2001:db8::1:0:0:1")
  expect(format("::")).toBe("::")
  expect(format("::1")).toBe("::1")
  expect(format("FE80::")).toBe("fe80::")
  expect(format("1:2:3:4:5:6:7:8")).toBe("1:2:3:4:5:6:7:8")
  const bad = [
    "",
    "1.2.3",
    "1.2.3.256",
    "1.2.3.4.5",
    ":::",
    "1::2::3",
    "1:2:3:4:5:6:7",
    "1:2:3:4:5:6:7:8:9",
    "g::",
    "::1.2.3",
    "fe80::1%eth0",
    "::12345",
  ]
  expect(bad.filter(parseAddress)).toEqual([])
})

test("an IPv4 address mapped into IPv6 is the IPv4 address", () => {
  expect(format("::ffff:192.0.2.1")).toBe("192.0.2.1")
  expect(format("0:0:0:0:0:ffff:c000:201")).toBe("192.0.2.1")
  const bytes = Uint8Array.from([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 0, 0, 7])
  expect(formatAddress(addressOf(bytes))).toBe("10.0.0.7")
})

test("limits count an IPv6 client by its /64", () => {
  const key = (text: string) => limitedAddress(parseAddress(text)!)
  expect(key("2001:db8:1:2:3:4:5:6")).toBe(key("2001:db8:1:2:ffff::1"))
  expect(key("2001:db8:1:2::1")).not.toBe(key("2001:db8:1:3::1"))
  expect(key("192.0.2.1")).toBe("192.0.2.1")
})

test("around a /64 there is a /56 and a /48; an IPv4 address has neither, however it is written", () => {
  const wider = (text: string) => {
    const limited = limitedAddress(parseAddress(text)!)
    return [prefix56(limited), prefix48(limited)]
  }
  const same = (one: string, other: string) => wider(one).map((prefix, i) => prefix === wider(other)[i])
  for (const group of ["0", "7", "ab", "abc", "abcd", "ff00"]) {
    const first = parseInt(group, 16) & 0xff00
    const within = (first | 0xff).toString(16)
    const beyond = (first ^ 0x100).toString(16)
    expect(same(`2001:db8:1:${group}::1`, `2001:db8:1:${within}:5::9`)).toEqual([true, true])
    expect(same(`2001:db8:1:${group}::1`, `2001:db8:1:${beyond}::1`)).toEqual([false, true])
    expect(same(`2001:db8:1:${group}::1`, `2001:db8:2:${group}::1`)).toEqual([false, false])
  }
  expect(same("::", "0:0:0:ff::")).toEqual([true, true])
  expect(same("::", "0:0:1::")).toEqual([false, false])
  for (const text of ["192.0.2.1", "::ffff:192.0.2.1", "0:0:0:0:0:ffff:c000:201"])
    expect(wider(text)).toEqual([undefined, undefined])
  // No prefix is another's key, and none is an address.
  const limited = ["2001:db8:1:2::", "2001:db8:1:200::", "2001:db8:1::", "2001:db8::"].map(text =>
    limitedAddress(parseAddress(text)!),
  )
  const keys = limited.flatMap(one => [one, prefix56(one)!, prefix48(one)!])
  expect(new Set(keys).size).toBe(4 + 3 + 2)
})

test("X-Forwarded-For is believed only from trusted proxies, hop by hop from the end", () => {
  const proxies = trustedProxies(["10.0.0.0/9", "2001:db8::/33", "::ffff:172.16.0.0/108", "192.0.2.9"])
  const seen = (peer: string, header?: string) => formatAddress(clientAddress(parseAddress(peer)!, header, proxies))
  expect(seen("203.0.113.5", "1.1.1.1")).toBe("203.0.113.5")
  expect(seen("10.0.0.1")).toBe("10.0.0.1")
  expect(seen("10.0.0.1", "1.1.1.1")).toBe("1.1.1.1")
  expect(seen("10.127.0.1", "6.6.6.6, 1.1.1.1, 10.0.0.2,172.17.0.1")).toBe("1.1.1.1")
  expect(seen("10.128.0.1", "1.1.1.1")).toBe("10.128.0.1")
  expect(seen("2001:db8:7fff::1", "[2001:db8:8000::1]:443")).toBe("2001:db8:8000::1")
  expect(seen("192.0.2.9", "1.1.1.1:4711")).toBe("1.1.1.1")
  expect(seen("10.0.0.1", "1.1.1.1, unknown, 10.0.0.2")).toBe("10.0.0.2")
  expect(seen("10.0.0.1", "10.0.0.3, 10.0.0.2")).toBe("10.0.0.3")
  expect(seen("10.0.0.1", "")).toBe("10.0.0.1")
})
