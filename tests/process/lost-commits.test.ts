/**
 * PostgreSQL that loses the end of what it had committed: a copy from before takes its place while workers serve. Through
 * the program itself.
 */
import { ApiError } from "../../client/rest.ts"
import { compareIds } from "../../src/domain/core/snowflake.ts"
import { Person } from "../kit/person.ts"
import { impatient } from "../kit/load.ts"
import { startProcesses, type Processes } from "../kit/processes.ts"
import { ownPostgres } from "../kit/services.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const slowly = { timeoutMs: 60_000 }

/** What a request was answered with, once it was answered as something other than "not now". */
async function answer<T>(ask: () => Promise<T>): Promise<T | number> {
  let status: T | number = 503
  await until(
    "an answer",
    async () => {
      status = await ask().catch((error: unknown) => {
        // A worker that ends cuts what it was asked.
        return error instanceof ApiError ? error.status : 503
      })
      return status !== 503
    },
    slowly,
  )
  return status
}

/** Both workers are, as a rule: connections are spread by the system. */
const ready = ({ url }: Processes): Promise<void> =>
  until(
    "every worker is ready",
    async () => {
      const look = async () => (await fetch(`${url}/readyz`, { headers: { connection: "close" } })).ok
      const looks = await Promise.all(Array.from({ length: 16 }, () => look().catch(() => false)))
      return looks.every(Boolean)
    },
    slowly,
  )

const losses = async (program: Processes): Promise<number> =>
  [...(await program.metrics())].reduce(
    (sum, [name, value]) => (name.startsWith("starling_lanes_lineages_lost_total") ? sum + value : sum),
    0,
  )

test(
  "LOSS1, LOSS2: workers notice that PostgreSQL has lost its latest commits: nothing of them is served, and sessions begin anew",
  { timeout: 180_000 },
  async () => {
    const postgres = await ownPostgres()
    const program = await startProcesses({ WORKERS: "2", DATABASE_URL: postgres.url })
    try {
      const [ada, lin] = [await Person.register(program, "ada"), await Person.register(program, "lin")]
      const server = await ada.on(program).createServer({ name: "kept" })
      const [channel] = await ada.on(program).listChannels({ server_id: server.id })
      const { code } = await ada.on(program).createInvite({ channel_id: channel!.id })
      await lin.on(program).joinByInvite({ invite_code: code })
      const post = (content: string) => ada.on(program).createMessage({ channel_id: channel!.id, content })
      const kept = await post("kept")

      // On both workers, as a rule.
      const inboxes = await Promise.all(Array.from({ length: 4 }, () => lin.listen(program, impatient)))
      const sessions = inboxes.map(inbox => inbox.sessionId)
      await postgres.stop()
      await postgres.keepCopy()
      await postgres.start()
      // PostgreSQL was away, and has everything: no session notices.
      const after = await answer(() => post("lost 1"))
      expect(after).toMatchObject({ content: "lost 1" })
      for (const inbox of inboxes) await inbox.next("MESSAGE_CREATE", { where: ({ content }) => content === "lost 1" })
      await ready(program)
      expect(inboxes.map(inbox => inbox.sessionId)).toEqual(sessions)
      expect(await losses(program)).toBe(0)

      const zoe = await Person.register(program, "zoe")
      await zoe.on(program).joinByInvite({ invite_code: code })
      const gone = await ada.on(program).createServer({ name: "lost" })
      const lost = [after as Awaited<ReturnType<typeof post>>, await post("lost 2"), await post("lost 3")]
      await ada.on(program).editServer({ server_id: server.id, name: "renamed" })
      for (const inbox of inboxes) await inbox.next("MESSAGE_CREATE", { where: ({ content }) => content === "lost 3" })

      await postgres.kill()
      await postgres.restoreCopy()
      await postgres.start()

      // What was acknowledged and is gone is served by nobody, whichever worker answers.
      expect(await answer(() => zoe.on(program).getMe())).toBe(401)
      for (let i = 0; i < 8; i++) {
        const shown = await answer(() => ada.on(program).listMessages({ channel_id: channel!.id }))
        expect((shown as { content: string }[]).map(({ content }) => content)).toEqual(["kept"])
        expect(await answer(() => ada.on(program).getServer({ server_id: server.id }))).toMatchObject({ name: "kept" })
        expect(await answer(() => ada.on(program).getServer({ server_id: gone.id }))).toBe(404)
        expect(await answer(() => zoe.on(program).getMe())).toBe(401)
      }
      expect(await losses(program)).toBeGreaterThan(0)

      // Sessions were told to begin anew, and hear what is new, once.
      await until(
        "sessions have begun anew",
        () => inboxes.every((inbox, i) => inbox.state === "live" && inbox.sessionId !== sessions[i]),
        slowly,
      )
      await ready(program)
      for (const inbox of inboxes) inbox.rest()
      const posted = [await answer(() => post("new 1")), await answer(() => post("new 2"))] as typeof lost
      for (const message of posted)
        for (const before of [kept, ...lost]) expect(compareIds(message.id, before.id)).toBeGreaterThan(0)
      for (const inbox of inboxes) for (const { id } of posted) expect((await inbox.next("MESSAGE_CREATE")).id).toBe(id)
      const shown = await ada.on(program).listMessages({ channel_id: channel!.id })
      expect(shown.map(({ content }) => content)).toEqual(["new 2", "new 1", "kept"])
      for (const inbox of inboxes) inbox.close()
    } finally {
      await program.stop()
      await postgres.close()
    }
  },
)
