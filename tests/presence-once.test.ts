import { allIntents } from "../src/contract/intents.ts"
import { expect, test } from "./kit/test.ts"
import { until } from "./kit/until.ts"

test("kill -9", { timeout: 150_000 }, async ({ cluster }) => {
  const processes = await cluster.processes(3)
  const people = await Promise.all(Array.from({ length: 12 }, () => cluster.person("p", processes)))
  const watcher = await cluster.person("w", processes)
  const { id } = await watcher.on(processes).createServer({ name: "Server" })
  const [channel] = await watcher.on(processes).listChannels({ server_id: id })
  const { code } = await watcher.on(processes).createInvite({ channel_id: channel!.id })
  for (const p of people) await p.on(processes).joinByInvite({ invite_code: code })
  const inbox = await watcher.gateway(processes, { intents: allIntents, autoReconnect: true })
  await inbox.connect()
  let at = 0
  const heard = new Map<string, string[]>()
  inbox.on("PRESENCE_UPDATE", ({ user_id, status }) => heard.set(user_id, [...(heard.get(user_id) ?? []), `${status}@${Math.round(performance.now() - at)}`]))
  const clients = await Promise.all(people.map(p => p.listen(processes)))
  await until("all online", () => people.every(p => heard.get(p.id)?.at(-1)?.startsWith("online") === true))
  const workers = (await processes.workers()).filter(({ place }) => place.startsWith("web"))
  const gone: number[] = []
  at = performance.now()
  for (const [i, c] of clients.entries()) if (i % 2) c.drop()
  processes.kill(workers[0]!.pid, "SIGKILL")
  for (const [i, c] of clients.entries())
    if (i % 2 === 0) {
      await until("x", () => true)
      if (c.state !== "live") await c.reconnect(processes.url)
    }
  await new Promise(r => setTimeout(r, 1000))
  for (const [i, c] of clients.entries()) if (i % 2 === 0 && c.state !== "live") await c.reconnect(processes.url)
  for (const [i, p] of people.entries())
    if (i % 2) {
      await until("offline", async () => (await watcher.on(processes).getPresence({ user_id: p.id }).catch(() => ({ status: "?" }))).status === "offline", { patience: 90_000, every: 200 })
      gone.push(Math.round(performance.now() - at))
    }
  await new Promise(r => setTimeout(r, 3000))
  console.log("offline after ms", gone.join(), JSON.stringify([...heard.values()]), inbox.state)
  for (const [i, p] of people.entries()) {
    const { status } = await watcher.on(processes).getPresence({ user_id: p.id })
    expect(status).toBe(i % 2 ? "offline" : "online")
  }
})
