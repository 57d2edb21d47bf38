import type { HttpResponse, TemplatedApp } from "uWebSockets.js"
import { expect, test } from "vitest"
import { parseAddress } from "../domain/core/client-address.ts"
import { countAccepted } from "./connection-limits.ts"

/** Opens connections as uWebSockets.js reports them. */
function opener(config: Partial<Parameters<typeof countAccepted>[1]["config"]> = {}) {
  let report: (res: HttpResponse, change: number) => void
  const app = { filter: (filter: typeof report) => void (report = filter) } as unknown as TemplatedApp
  const refusals = { inc() {} }
  countAccepted(app, {
    config: { unlimitedAddresses: [], trustedProxies: [], ...config },
    topology: { http: { connections: { openedPerAddress: 2 } } },
    metrics: { http: { overload: { connections: refusals } } },
  } as unknown as Parameters<typeof countAccepted>[1])
  /** How many of these are let in. */
  return (addresses: readonly string[]): number => {
    let closed = 0
    for (const address of addresses) {
      const bytes = Uint8Array.from(parseAddress(address)!).buffer
      report({ getRemoteAddress: () => bytes, close: () => closed++ } as unknown as HttpResponse, 1)
    }
    return addresses.length - closed
  }
}

const spread = (count: number, address: (i: number) => string) => Array.from({ length: count }, (_, i) => address(i))
const hex = (number: number) => number.toString(16)

test("connections count for a /64, and for the /56 and the /48 around it; another /48 is served", () => {
  const open = opener()
  expect(open(spread(30, i => `2001:db8:1:7::${hex(i)}`))).toBe(2)
  expect(open(spread(200, i => `2001:db8:1:${hex(8 + i)}::1`))).toBe(8 - 2)
  expect(open(spread(250, i => `2001:db8:1:${hex((i + 1) << 8)}::1`))).toBe(32 - 8)
  expect(open(spread(250, i => `2001:db8:2:${hex((i + 1) << 8)}::1`))).toBe(32)
  expect(open(spread(250, i => `192.0.2.${i}`))).toBe(250)
})

test("who is not limited is not limited by a prefix", () => {
  const open = opener({ unlimitedAddresses: ["2001:db8:1::/48"], trustedProxies: ["2001:db8:2::/48"] })
  for (const net of [1, 2]) expect(open(spread(250, i => `2001:db8:${net}:${hex(i << 8)}::1`))).toBe(250)
})
