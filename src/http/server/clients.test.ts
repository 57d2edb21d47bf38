import { expect, test } from "vitest"
import { parseAddress } from "../../domain/core/client-address.ts"
import { Clients } from "./clients.ts"

/** What the socket says, as uWebSockets.js passes it on. */
const from = (bytes: readonly number[]) => ({ getRemoteAddress: () => Uint8Array.from(bytes).buffer })
const mapped = (...v4: number[]) => [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, ...v4]
const v6 = (text: string) => [...parseAddress(text)!]

test("an address has one client, however its socket was opened, and another address another", () => {
  const clients = new Clients([])
  const ada = clients.of(from([192, 0, 2, 1]), undefined)
  expect(ada).toMatchObject({ text: "192.0.2.1", limited: "192.0.2.1" })
  expect(clients.of(from([192, 0, 2, 1]), undefined)).toBe(ada)
  expect(clients.of(from(mapped(192, 0, 2, 1)), undefined)).toEqual(ada)
  expect(clients.of(from([1, 2, 0, 192]), undefined).text).toBe("1.2.0.192")
  expect(clients.of(from([255, 0, 2, 1]), undefined).text).toBe("255.0.2.1")

  const lin = clients.of(from(v6("2001:db8::1:0:0:1")), undefined)
  expect(lin).toMatchObject({ text: "2001:db8::1:0:0:1", limited: "2001:db8:0:0::/64" })
  expect(clients.of(from(v6("2001:db8::1:0:0:1")), undefined)).toBe(lin)
  expect(clients.of(from(v6("2001:db8::1:0:1:0")), undefined).text).toBe("2001:db8::1:0:1:0")
  // The least of all, and a peer who is gone.
  expect(clients.of(from(v6("::")), undefined).text).toBe("::")
  expect(clients.of(from([]), undefined).address).toHaveLength(0)
  expect(clients.of(from(v6("::")), undefined).address).toHaveLength(16)
})

test("what is said of a client is believed of a listed proxy only, also where the same was said before", () => {
  const clients = new Clients(["10.0.0.0/8"])
  const [proxy, other, stranger] = [from([10, 0, 0, 1]), from([10, 0, 0, 2]), from([192, 0, 2, 9])]
  expect(clients.of(proxy, "192.0.2.1").text).toBe("192.0.2.1")
  expect(clients.of(proxy, "192.0.2.1")).toBe(clients.of(proxy, "192.0.2.1"))
  expect(clients.of(stranger, "192.0.2.1").text).toBe("192.0.2.9")
  expect(clients.of(proxy, "192.0.2.2").text).toBe("192.0.2.2")
  // Nothing that is an address: the hop that said so.
  expect(clients.of(proxy, "nobody").text).toBe("10.0.0.1")
  expect(clients.of(other, "nobody").text).toBe("10.0.0.2")
  expect(clients.of(proxy, undefined).text).toBe("10.0.0.1")
  expect(new Clients([]).of(proxy, "192.0.2.1").text).toBe("10.0.0.1")
})
