/**
 * A server upgrade: this version and the one before work side by side on one PostgreSQL and one
 * Redis, then the old one goes.
 */
import { GatewayError } from "../../client/gateway.ts"
import { closeCodes } from "../../src/contract/core/gateway-codes.ts"
import { wantedPlace } from "../../src/domain/core/placement.ts"
import { addEveryShard } from "../kit/database.ts"
import { expect, test } from "../kit/test.ts"
import { check, impatient, load, quantile, communities, watch } from "../kit/load.ts"
import type { Listener } from "../kit/person.ts"
import { unpackPreviousVersion } from "../kit/previous-version.ts"
import { startProcesses, type Processes } from "../kit/processes.ts"
import { until } from "../kit/until.ts"

/** Processes start and end here; on a busy machine that takes its time. */
const slowly = { timeoutMs: 60_000 }

const mixed = (processes: Processes): Processes => ({ ...processes, isMixed: true })

const troubles = (processes: Processes): string[] =>
  processes
    .stderr()
    .split("\n")
    .filter(line => /"level":"(error|fatal)"/.test(line))

test(
  "P1, P2, P3, P5, P17: two versions side by side: messages, sessions and shards go both ways; the old one drains and nothing is lost",
  { timeout: 240_000 },
  async ({ cluster }) => {
    const previous = await unpackPreviousVersion()
    // It draws the shards of new homes from as many.
    await addEveryShard(cluster.sql)
    const running: Processes[] = []
    const environment = { WORKERS: "2", DATABASE_URL: cluster.databaseUrl }
    try {
      const old = mixed(await startProcesses(environment, previous.main))
      running.push(old)
      const { ada, lin, list } = await communities(cluster, 8, old)
      const oldClients = await Promise.all(
        Array.from({ length: 4 }, (_, i) => lin.listen(old, { encoding: i % 2 === 0 ? "json" : "msgpack" })),
      )
      // The newcomer takes shards of the old one's while the load runs.
      let places: [Processes, Processes] = [old, old]
      const sending = load(ada, list, (n, community) => places[(n + community) % 2]!)
      await sending.goesOn()
      const joinedAt = performance.now()
      const fresh = mixed(await startProcesses({ ...environment, REDIS_URL: old.redisUrl }))
      running.unshift(fresh)
      places = [old, fresh]
      const ownedBy = async () => {
        const rows = await cluster.sql<{ owned: number }[]>`
          SELECT count(*)::int AS owned FROM shards JOIN incarnations i ON i.id = owner AND died_at IS NULL GROUP BY host ORDER BY min(started_at)`
        return rows.map(({ owned }) => owned)
      }
      /** Every shard is where both versions reckon that it should be. */
      const balanced = () =>
        until(
          "every shard is where it belongs",
          async () => {
            const places = await cluster.sql<{ id: string; host: string; slot: number }[]>`
              SELECT id, host, slot FROM incarnations WHERE role = 'web' AND died_at IS NULL`
            const rows = await cluster.sql<{ shard: number; owner: string }[]>`SELECT shard, owner FROM shards`
            return places.length === 4 && rows.every(({ shard, owner }) => wantedPlace(shard, places)!.id === owner)
          },
          slowly,
        )
      await balanced()
      await sending.goesOn()
      const newClients = await Promise.all(
        Array.from({ length: 4 }, (_, i) =>
          lin.listen(fresh, { ...impatient, encoding: i % 2 === 0 ? "json" : "msgpack" }),
        ),
      )
      // What was said before they came is no business of theirs.
      for (const inbox of newClients) inbox.rest()
      const heardFrom = [...oldClients, ...newClients]
      const sessions = watch(heardFrom)
      /** Also where it is told to try again later. */
      const goTo = async (inbox: Listener, url: string): Promise<void> => {
        try {
          await inbox.reconnect(url)
        } catch (error) {
          if (!(error instanceof GatewayError) || error.code !== closeCodes.try_again_later.code) throw error
          return goTo(inbox, url)
        }
      }
      const move = (inboxes: readonly Listener[], to: Processes) =>
        Promise.all(inboxes.map(inbox => goTo(inbox, to.url)))
      await move(oldClients.slice(0, 2), fresh)
      await move(newClients.slice(0, 2), old)
      await sending.goesOn()
      await move(oldClients.slice(0, 2), old)
      await move(newClients.slice(0, 2), fresh)
      await sending.goesOn()
      expect(sessions.resumed()).toBe(8)

      // A worker of the new version goes: what it owned is handed to the old one's workers, too.
      const before = await ownedBy()
      const victim = (await fresh.workers()).find(({ slot }) => slot === "web 1")!
      fresh.kill(victim.pid, "SIGTERM")
      await until(
        "its place is filled again",
        async () => {
          const now = (await fresh.workers()).find(({ slot }) => slot === "web 1")
          return now !== undefined && now.pid !== victim.pid
        },
        slowly,
      )
      await balanced()
      expect(await ownedBy()).toEqual(before)
      await sending.goesOn()

      places = [fresh, fresh]
      const drainedAt = performance.now()
      // Clients that are sent away come back on the new version, as behind one address.
      for (const inbox of oldClients)
        inbox.on("close", () => {
          inbox.reconnect(fresh.url).catch(() => {})
        })
      old.kill(old.pid, "SIGTERM")
      expect(await old.ended).toBe(0)
      await sending.goesOn(10)
      await sending.end()
      expect(await ownedBy()).toEqual([1024])
      console.log(
        `two versions: longest wait ${Math.round(sending.longestGap(joinedAt))} ms, p99 ${Math.round(quantile(sending.gaps(joinedAt), 0.99))} ms; ` +
          `while the old one drained ${Math.round(sending.longestGap(drainedAt))} ms; ${sending.acked.size} messages, ${sending.refusals()} tried again`,
      )
      expect(sessions.anew()).toBe(0)
      expect(sessions.changed()).toEqual([])
      await check(cluster, list, sending.acked, oldClients, newClients)
      // A question that the old one does not know is refused, which it logs; the worker that asked
      // does without.
      expect(troubles(old).filter(line => !line.includes("no handler for"))).toEqual([])
      expect(troubles(fresh)).toEqual([])
    } finally {
      for (const processes of running) await processes.stop()
      await previous.remove()
    }
  },
)
