/** A turn that the database refuses, a commit whose outcome nobody knows: what happens to them, and to everybody else. */
import type { Cluster, Worker } from "../kit/cluster.ts"
import { clientAt, type Person, type Endpoint } from "../kit/person.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

async function counted({ metrics }: Worker, name: string): Promise<number> {
  const metric = (await metrics.registry.getSingleMetric(name)!.get()) as unknown as {
    values: { value: number }[]
  }
  return metric.values.reduce((sum, { value }) => sum + value, 0)
}
const total = async (workers: readonly Worker[], name: string) =>
  (await Promise.all(workers.map(worker => counted(worker, name)))).reduce((a, b) => a + b, 0)

async function ownServer(owner: Person, at: Endpoint) {
  const server = await owner.on(at).createServer({ name: "Somewhere" })
  const [channel] = await owner.on(at).listChannels({ server_id: server.id })
  return { server, channel: channel! }
}

const isWaitingForALock = async (cluster: Cluster) =>
  (await cluster.sql`SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
    .length > 0

/** Holds the lane up while commands gather, so that they all are of one batch. */
async function inOneBatch<T>(
  cluster: Cluster,
  worker: Worker,
  count: number,
  first: () => Promise<unknown>,
  rest: () => Promise<T>,
): Promise<T> {
  const held = await cluster.sql.reserve()
  await held`BEGIN`
  await held`LOCK TABLE outbox IN SHARE MODE`
  const leading = first()
  await until("the lane waits", () => isWaitingForALock(cluster))
  const outcome = rest()
  await until("they all wait", async () => (await counted(worker, "starling_http_requests_in_flight")) === count + 1)
  await held`COMMIT`
  held.release()
  await leading
  return outcome
}

test("COMMIT2: a turn that the database refuses fails alone; every other turn of its batch is committed, and its home recovers", async ({
  cluster,
}) => {
  const [worker] = await cluster.boot(1)
  const { channel, ada, lin } = await cluster.seed(sharedServer)
  const others = await Promise.all(Array.from({ length: 4 }, () => ownServer(lin, worker!)))
  const inbox = await lin.listen(worker!)
  await cluster.sql`ALTER TABLE messages ADD CONSTRAINT no_guilt CHECK (content <> 'guilty')`
  for (let round = 0; round < 5; round++) {
    const outcomes = await inOneBatch(
      cluster,
      worker!,
      5,
      () => ada.on(worker!).createMessage({ channel_id: channel.id, content: `before ${round}` }),
      () =>
        Promise.all([
          // No client may rely on this refusal, so it is not sent through the typed one.
          fetch(`${worker!.url}/api/v1/channels/${channel.id}/messages`, {
            method: "POST",
            headers: { authorization: `Bearer ${ada.token}` },
            body: JSON.stringify({ content: "guilty" }),
          }).then(({ status }) => status),
          ...others.map(other =>
            lin.on(worker!).createMessage({ channel_id: other.channel.id, content: `innocent ${round}` }),
          ),
        ]),
    )
    expect(outcomes[0]).toBe(500)
    await ada.on(worker!).createMessage({ channel_id: channel.id, content: `recovered ${round}` })
  }
  expect(await counted(worker!, "starling_lanes_guilty_turns_total")).toBe(5)
  await cluster.settle()
  const heard = inbox.rest().flatMap(event => (event.name === "MESSAGE_CREATE" ? [event.data] : []))
  expect(new Set(heard.map(message => message.id)).size).toBe(heard.length)
  const told = (content: string) => heard.filter(message => message.content === content).length
  for (let round = 0; round < 5; round++)
    expect([told(`before ${round}`), told(`innocent ${round}`), told(`recovered ${round}`)]).toEqual([1, 4, 1])
  expect(told("guilty")).toBe(0)
  expect(worker!.over).toBeUndefined()
  expect(cluster.errors.splice(0).length).toBeGreaterThanOrEqual(5)
})

test("MSG3, COMMIT2: a nonce that only the database knows is answered with its first message, and the batch goes on", async ({
  cluster,
}) => {
  const [worker] = await cluster.boot(1)
  const { channel, ada, lin } = await cluster.seed(sharedServer)
  const other = await ownServer(lin, worker!)
  for (let round = 0; round < 3; round++) {
    const nonce = `old ${round}`
    const warm = await ada.on(worker!).createMessage({ channel_id: channel.id, content: "warm" })
    const first = String(BigInt(warm.id) + 2000n)
    await cluster.sql`INSERT INTO messages (channel_id, id, author_id, server_id, content, nonce) VALUES (${channel.id}, ${first}, ${ada.id}, ${channel.server_id}, 'first', ${nonce})`
    const [repeated, innocent] = await inOneBatch(
      cluster,
      worker!,
      2,
      () => lin.on(worker!).createMessage({ channel_id: other.channel.id, content: "holds the lane" }),
      () =>
        Promise.all([
          ada.on(worker!).createMessage({ channel_id: channel.id, content: "again", nonce }),
          lin.on(worker!).createMessage({ channel_id: other.channel.id, content: `innocent ${round}` }),
        ]),
    )
    expect([repeated.id, repeated.content]).toEqual([first, "first"])
    expect(innocent.content).toBe(`innocent ${round}`)
  }
  expect((await cluster.sql`SELECT 1 FROM messages WHERE content = 'again'`).length).toBe(0)
})

test("COMMIT2: a refusal that the contract knows is told as such: two who take one name at once", async ({
  cluster,
}) => {
  const workers = await cluster.boot(2)
  const { channel, ada } = await cluster.seed(sharedServer)
  for (let round = 0; round < 3; round++) {
    const posts = Array.from({ length: 10 }, (_, i) =>
      ada.on(workers[i % 2]!).createMessage({ channel_id: channel.id, content: `${i}` }),
    )
    const takers = await Promise.allSettled(
      Array.from({ length: 4 }, (_, i) =>
        clientAt(workers[i % 2]!).register({
          username: `Twin_${round}`,
          email: `twin${round}.${i}@example.com`,
          password: "Correct-Horse-9",
        }),
      ),
    )
    const refused = takers.flatMap(one => (one.status === "rejected" ? [one.reason as { status: number }] : []))
    expect(refused.map(({ status }) => status)).toEqual([409, 409, 409])
    await Promise.all(posts)
  }
})

test(
  "COMMIT3, P1, P2: the lane's connection is lost again and again under load; nothing acknowledged is lost, nothing doubled",
  { timeout: 60_000 },
  async ({ cluster }) => {
    const workers = await cluster.boot(2)
    const { channel, ada, lin } = await cluster.seed(sharedServer)
    const inboxes = await Promise.all(workers.map(worker => lin.listen(worker)))
    const acked = new Map<string, string>()
    const over = new AbortController()
    const clients = Array.from({ length: 8 }, async (_, client) => {
      for (let n = 0; !over.signal.aborted; n++) {
        const content = `${client}:${n}`
        for (;;) {
          try {
            const message = await ada
              .on(workers[(client + n) % 2]!)
              .createMessage({ channel_id: channel.id, content, nonce: content })
            acked.set(content, message.id)
            break
          } catch (error) {
            if ((error as { status?: number }).status !== 503) throw error
          }
        }
      }
    })
    const unknown = () => total(workers, "starling_lanes_unknown_outcomes_total")
    let cuts = 0
    while ((await unknown()) < 6 && cuts < 200) {
      const before = acked.size
      await cluster.sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE '% lane 0'`
      cuts++
      await until("it goes on", () => acked.size > before + 20)
    }
    over.abort()
    await Promise.all(clients)
    await cluster.settle()
    expect(await unknown()).toBeGreaterThan(0)
    expect(workers.map(worker => worker.over)).toEqual([undefined, undefined])

    const rows = await cluster.sql<
      { id: string; content: string }[]
    >`SELECT id, content FROM messages WHERE channel_id = ${channel.id} ORDER BY id`
    expect(new Set(rows.map(row => row.content)).size).toBe(rows.length) // P2
    const stored = new Map(rows.map(row => [row.content, row.id]))
    for (const [content, id] of acked) expect(stored.get(content)).toBe(id) // P1
    for (const inbox of inboxes)
      expect(inbox.rest().map(event => event.name === "MESSAGE_CREATE" && event.data.id)).toEqual(
        rows.map(row => row.id),
      )
  },
)
