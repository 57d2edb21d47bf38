/** P11: PostgreSQL paused, slow, or beyond a way that is cut or one-sided. */
import { setTimeout as sleep } from "node:timers/promises"
import { hangsAfterMs, ownWorld, suffer, type Fault } from "../kit/dependencies.ts"
import { Person } from "../kit/person.ts"
import { expect, test } from "../kit/test.ts"

const faults: Fault[] = [
  { name: "PostgreSQL paused", begin: ({ postgres }) => postgres.pause(), end: ({ postgres }) => postgres.resume() },
  {
    name: "way to PostgreSQL cut",
    begin: async ({ links }) => links.postgres.set({ cut: true }),
    end: async ({ links }) => links.postgres.set({}),
  },
  {
    // In time for each statement, and too late for all of a request that has several.
    name: "PostgreSQL 3 s late",
    begin: async ({ links }) => links.postgres.set({ delayMs: 1_500 }),
    end: async ({ links }) => links.postgres.set({}),
  },
  {
    name: "replies of PostgreSQL lost",
    begin: async ({ links }) => links.postgres.set({ lost: "replies" }),
    end: async ({ links }) => links.postgres.set({}),
  },
]

const world = ownWorld()

test.for(faults)(
  "P11: $name: typed refusals within 5 s on every route, and all heals by itself",
  { timeout: 90_000 },
  async (fault, { annotate }) => {
    await annotate(await suffer(world(), fault))
  },
)

test(
  "IDENTIFY waits for PostgreSQL up to 5 s, then its client is told to come again; a post is told what it waited for, and so is the log",
  { timeout: 60_000 },
  async () => {
    const { program, postgres } = world()
    const ada = await Person.register(program, "patient")
    const server = await ada.on(program).createServer({ name: "Later" })
    const [channel] = await ada.on(program).listChannels({ server_id: server.id })
    const post = () => ada.on(program).createMessage({ channel_id: channel!.id, content: "later", nonce: "once" })
    const lateLines = () =>
      program
        .stderr()
        .split("\n")
        .filter(line => line.includes('"msg":"no answer in time"'))
    await ada.on(program).createMessage({ channel_id: channel!.id, content: "now" })
    await postgres.pause()
    try {
      const saidBefore = lateLines().length
      const refused = expect(post()).rejects.toMatchObject({
        status: 503,
        words: expect.stringMatching(/no answer in time: (commit|other worker)$/) as string,
      })
      const [soon, never] = [ada.gateway(program), ada.gateway(program)]
      const startedAt = performance.now()
      await expect(never.connect()).rejects.toMatchObject({ code: 1013 })
      expect(performance.now() - startedAt).toBeGreaterThan(4_000)
      expect(performance.now() - startedAt).toBeLessThan(hangsAfterMs)
      await refused
      const late = lateLines().slice(saidBefore)
      expect(late.length).toBeGreaterThan(0)
      for (const line of late) expect(line).toMatch(/"waits_for":"(commit|other worker)"/)
      const connected = soon.connect()
      await sleep(1_500)
      await postgres.resume()
      await connected
      soon.close()
      // Sent again it is one message, whatever became of the first.
      await post()
      expect(await postgres.sql`SELECT FROM messages WHERE content = 'later'`).toHaveLength(1)
    } finally {
      await postgres.resume()
    }
  },
)
