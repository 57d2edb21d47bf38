import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { expect, onTestFinished, test } from "vitest"
import { OutboundRequests, PrivateAddress } from "./outbound-requests.ts"

test("FETCH1, FETCH2: a file is read from a public address only, and no more of it than was allowed", async () => {
  const server = createServer((request, response) => {
    if (request.url === "/moved") response.writeHead(302, { location: "/file" }).end()
    else if (request.url === "/slow") response.write("a")
    else response.end("x".repeat(1_000))
  })
  await new Promise<void>(resolve => server.listen(0, "127.0.0.1", resolve))
  onTestFinished(() => server.close().closeAllConnections())
  const at = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const options = { timeoutMs: 5_000, maxBytes: 1_000 }
  const read = async (requests: OutboundRequests, url: string, given = options) => {
    const pieces: Buffer[] = []
    for await (const piece of requests.read(url, given)) pieces.push(piece)
    return Buffer.concat(pieces).length
  }
  const [inside, outside] = [true, false].map(mayBePrivate => new OutboundRequests({ mayBePrivate }))
  onTestFinished(() => [inside, outside].forEach(requests => requests!.close()))
  expect(await read(inside!, `${at}/file`)).toBe(1_000)
  await expect(read(inside!, `${at}/file`, { ...options, maxBytes: 999 })).rejects.toThrow("longer than 999")
  await expect(read(inside!, `${at}/moved`)).rejects.toThrow("answered 302")
  await expect(read(inside!, `${at}/slow`, { ...options, timeoutMs: 100 })).rejects.toThrow()
  await expect(read(inside!, "file:///etc/passwd")).rejects.toThrow("not fetched")
  await expect(read(outside!, `${at}/file`)).rejects.toThrow(PrivateAddress)
  const named = new OutboundRequests({ mayBePrivate: false, resolve: async () => ["10.0.0.1"] })
  await expect(read(named, "http://files.example/x")).rejects.toThrow(PrivateAddress)
})
