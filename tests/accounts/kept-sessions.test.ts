/** Workers keep sessions in memory; a logout or a change is there for all of them when it is answered. */
import { shardOf } from "../../src/domain/core/snowflake.ts"
import type { Cluster, Worker } from "../kit/cluster.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

test("TOK5, P12: in hundreds of races no request that begins after a logout was answered is accepted anywhere", async ({
  shared,
}) => {
  const { lin } = await shared.seed(sharedServer)
  const places = [shared.east, shared.west]
  const rounds = 200
  const accepted: number[] = []
  const race = async (n: number) => {
    const session = await lin.signIn(places[n % 2]!)
    const isAccepted = (place: (typeof places)[number]) =>
      session
        .on(place)
        .getMe()
        .then(
          () => true,
          () => false,
        )
    // Kept there; or about to be, when the logout comes.
    await Promise.all(places.slice(n % 3 === 0 ? 1 : 0).map(isAccepted))
    const racing = places.map(isAccepted)
    await session.on(places[(n >> 1) % 2]!).logout()
    const after = await Promise.all(places.map(isAccepted))
    await Promise.all(racing)
    if (after.includes(true)) accepted.push(n)
  }
  for (let n = 0; n < rounds; n += 4) await Promise.all([0, 1, 2, 3].map(i => race(n + i)))
  expect(accepted).toEqual([])
})

test("TOK5: a new name is in every worker's answer once it was confirmed", async ({ shared }) => {
  const { lin } = await shared.seed(sharedServer)
  const places = [shared.east, shared.west]
  for (let n = 0; n < 20; n++) {
    await Promise.all(places.map(place => lin.on(place).getMe()))
    const username = `${lin.username.slice(0, 12)}_${n}`
    await lin.on(places[n % 2]!).editMe({ username })
    for (const place of places) expect((await lin.on(place).getMe()).username).toBe(username)
  }
})

test.for(["logout", "revokeAllSessions"] as const)(
  "TOK5, P12: %s, repeated while the first waits for a slow worker, waits for it, too",
  async (repeated, { cluster }) => {
    const workers = (await cluster.boot(2)) as [Worker, Worker]
    const lin = await cluster.person("lin")
    const owner = workers[(await ownerOf(cluster, lin.id)) === workers[0].id ? 0 : 1]
    const slow = workers.find(worker => worker !== owner)!
    await Promise.all(workers.map(worker => lin.on(worker).getMe()))
    // What the slow worker is to drop does not reach it.
    let goOn = () => {}
    const held = new Promise<void>(resolve => (goOn = resolve))
    const { bus } = owner.node
    const request = bus.request.bind(bus)
    bus.request = async (worker, kind, ...rest) => {
      if (kind === "dropSessions") await held
      return request(worker, kind, ...rest)
    }
    const first = lin.on(owner).logout()
    await until("it is committed", async () => (await sessionsOf(cluster, lin.id)) === 0)
    let answered = false
    const repeat = lin.on(slow)
    const second = (repeated === "logout" ? repeat.logout() : repeat.revokeAllSessions({ except_current: false })).then(
      () => (answered = true),
    )
    // What the slow worker asks after it is answered after it.
    for (const allow_dms_from of ["friends", "none"] as const)
      await lin.on(slow).editMessagingSettings({ allow_dms_from })
    expect(answered).toBe(false)
    goOn()
    await Promise.all([first, second])
    const later = await Promise.allSettled(workers.map(worker => lin.on(worker).getMe()))
    expect(later.map(({ status }) => status)).toEqual(["rejected", "rejected"])
  },
)

const ownerOf = async ({ sql }: Cluster, id: string): Promise<string | null> =>
  (await sql<{ owner: string | null }[]>`SELECT owner FROM shards WHERE shard = ${shardOf(id)}`)[0]!.owner

const sessionsOf = async ({ sql }: Cluster, user: string): Promise<number> =>
  (await sql`SELECT FROM sessions WHERE user_id = ${user}`).length
