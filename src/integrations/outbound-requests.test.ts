import { createSocket } from "node:dgram"
import { once } from "node:events"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { expect, onTestFinished, test } from "vitest"
import { byDns, OutboundRequests, PrivateAddress } from "./outbound-requests.ts"

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

test("FETCH1: names that anybody chooses are asked of DNS, and one without an answer holds up nobody", async () => {
  const server = createSocket("udp4")
  onTestFinished(() => void server.close())
  server.on("message", (question, from) => {
    const end = question.indexOf(0, 12) + 5
    const isSilent = question.subarray(13, 13 + question[12]!).toString() === "silent"
    if (isSilent) return
    // One answer, to the name that was asked for; of IPv6 there is none.
    const isFour = question.readUInt16BE(end - 4) === 1
    const header = Buffer.from([...question.subarray(0, 2), 0x81, 0x80, 0, 1, 0, isFour ? 1 : 0, 0, 0, 0, 0])
    const answer = isFour ? Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 1, 2, 3, 4]) : Buffer.alloc(0)
    server.send(Buffer.concat([header, question.subarray(12, end), answer]), from.port, from.address)
  })
  server.bind(0, "127.0.0.1")
  await once(server, "listening")
  const resolve = byDns([`127.0.0.1:${server.address().port}`])
  let isOver = false
  const silent = Promise.allSettled(Array.from({ length: 20 }, () => resolve("silent.example"))).then(answers => {
    isOver = true
    return answers
  })
  expect(await resolve("push.example")).toEqual(["1.2.3.4"])
  expect(isOver).toBe(false)
  expect((await silent).every(answer => answer.status === "rejected" || answer.value.length === 0)).toBe(true)
  const requests = new OutboundRequests({ mayBePrivate: false, resolve: async () => [] })
  await expect(requests.check("https://nobody.example/")).rejects.toThrow("has no address")
})
