/** Clients of REST that ask for much and read nothing: they hold no memory of a worker, and nobody else notices. */
import { readFile } from "node:fs/promises"
import { connect, type Socket } from "node:net"
import type { Cluster } from "../kit/cluster.ts"
import type { Endpoint } from "../kit/person.ts"
import { plantedId, sharedServer } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"

const mebibyte = 1024 * 1024

/** Bytes of memory that a process holds. */
async function residentBytes(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "utf8")
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)![1]) * 1024
}

/** A channel whose history has 100 messages of 150 KB. */
async function heavyChannel(cluster: Cluster, place: Endpoint) {
  const { ada, channel } = await sharedServer(cluster, place)
  const embeds = JSON.stringify([{ type: "rich", description: "embed", more: "ü".repeat(75_000) }])
  const rows = Array.from({ length: 100 }, () => ({
    channel_id: channel.id,
    id: plantedId(),
    server_id: channel.server_id,
    author_id: ada.id,
    content: "heavy",
  }))
  await cluster.sql`INSERT INTO messages ${cluster.sql(rows)}`
  await cluster.sql`UPDATE messages SET embeds = ${embeds}::text::json WHERE channel_id = ${channel.id}`
  return { path: `/api/v1/channels/${channel.id}/messages?limit=100`, token: ada.token }
}

test(
  "P9: 1,000 connections that ask for pages of history, documents and assets and never read them cost a worker less than 100 MB, and others are answered",
  { timeout: 180_000 },
  async ({ cluster }) => {
    const program = await cluster.processes(1)
    const [web] = (await program.workers()).filter(({ slot }) => slot.startsWith("web"))
    const { path, token } = await heavyChannel(cluster, program)
    const docs = await (await fetch(`${program.url}/docs`)).text()
    const asset = /src="(\/docs\/assets\/swagger-ui-bundle[^"]+)"/.exec(docs)![1]!
    const wanted = [path, asset, "/openapi.json"]
    const headers = `Host: localhost\r\nAuthorization: Bearer ${token}\r\n`
    // What is made once is there before it is measured.
    for (const url of wanted) {
      const answer = await fetch(program.url + url, { headers: { authorization: `Bearer ${token}` } })
      expect((await answer.arrayBuffer()).byteLength).toBeGreaterThan(500_000)
    }

    const before = await residentBytes(web!.pid)
    let most = before
    const sockets: Socket[] = []
    const { port } = new URL(program.url)
    try {
      for (let i = 0; i < 1_000; i++) {
        const socket = connect({ port: Number(port), host: "127.0.0.1" })
        socket.on("error", () => {}).pause()
        socket.write(`GET ${wanted[i % wanted.length]} HTTP/1.1\r\n${headers}\r\n`)
        sockets.push(socket)
        if (i % 50 === 49) await new Promise(resolve => setTimeout(resolve, 100))
        most = Math.max(most, await residentBytes(web!.pid))
      }
      for (let round = 0; round < 20; round++) {
        expect((await fetch(`${program.url}/livez`)).status).toBe(200)
        most = Math.max(most, await residentBytes(web!.pid))
        await new Promise(resolve => setTimeout(resolve, 250))
      }
      expect(Math.round((most - before) / mebibyte), "MiB more than before").toBeLessThan(95)
      expect((await program.workers()).map(({ pid }) => pid)).toContain(web!.pid)
    } finally {
      for (const socket of sockets) socket.destroy()
    }
  },
)
