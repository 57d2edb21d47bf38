/** What clients notice of the state that an operator sets, and of a worker that leaves. */
import { describe } from "vitest"
import { routes } from "../../src/contract/contract.ts"
import { closeCodes } from "../../src/contract/core/gateway-codes.ts"
import type { Cluster, Worker } from "../kit/cluster.ts"
import { refusal } from "../kit/conformance.ts"
import { send } from "../kit/exchange.ts"
import { attentive, operatorOf } from "../kit/operator.ts"
import { clientAt, type Endpoint } from "../kit/person.ts"
import { closedWith, identified, open, Raw } from "../kit/raw.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const stateOf = async (place: Endpoint) => (await clientAt(place).getStatus({})).state
const reached = (places: readonly Endpoint[], state: string) =>
  until(`every worker is ${state}`, async () => (await Promise.all(places.map(stateOf))).every(one => one === state))
const statuses = (raw: Raw) => raw.frames.filter(({ op }) => op === 12).map(({ d }) => d)
const sessionOf = (raw: Raw) => (raw.frames.find(({ t }) => t === "READY")!.d as { session_id: string }).session_id

/** One connection of each kind: with a session in every encoding, on either worker, and without. */
async function everyKind(cluster: Cluster, [east, west]: readonly [Worker, Worker]) {
  const ada = await cluster.person("ada", east)
  const [live, strangers] = await Promise.all([
    Promise.all([
      identified(east, ada.token),
      identified(west, ada.token, { query: "?encoding=msgpack" }),
      identified(west, ada.token, { d: { compress: true } }),
      identified(east, ada.token, { query: "?encoding=msgpack", d: { compress: true, intents: 0 } }),
    ]),
    Promise.all([open(east), open(west, { query: "?encoding=msgpack" })]),
  ])
  return { ada, live, strangers }
}

test("maintenance: sessions are told and end with 4016, new connections end after HELLO, REST answers 503 with the operator's words", async ({
  cluster,
}) => {
  const workers = (await cluster.boot(2, { topology: attentive })) as [Worker, Worker]
  const operator = operatorOf(cluster)
  const { ada, live, strangers } = await everyKind(cluster, workers)
  const message = "Maintenance: new disks until four"
  const restart_at = Math.floor(Date.now() / 1000) + 900
  await operator.setState({ state: "maintenance", message, estimated_downtime_seconds: 600, restart_at })

  const told = { state: "maintenance", message, restart_at, estimated_downtime_seconds: 600, closing_in_seconds: 2 }
  for (const raw of live) {
    expect(await raw.op(12)).toEqual({ op: 12, d: told })
    expect(await raw.ended).toEqual(closedWith("server_maintenance"))
    expect(statuses(raw)).toHaveLength(1)
  }
  for (const raw of strangers) {
    expect(await raw.ended).toEqual(closedWith("server_maintenance"))
    expect(raw.frames.map(({ op }) => op)).toEqual([10])
  }

  const late = (await cluster.boot(1, { unbalanced: true, topology: attentive }))[0]!
  for (const place of [...workers, late]) {
    const raw = new Raw(place, { first: { op: 2, d: { token: ada.token } } })
    expect(await raw.ended).toEqual(closedWith("server_maintenance"))
    expect(raw.frames.map(({ op }) => op)).toEqual([10])

    for (const route of [routes.getHealth, routes.getLive, routes.getVersion, routes.getStatus]) {
      const path = `${route.mount === "api" ? "/api/v1" : ""}${route.path}`
      expect([path, (await send(place, path, { route })).status]).toEqual([path, 200])
    }
    expect((await send(place, "/docs")).status).toBe(200)
    expect((await send(place, "/nowhere")).code).toBe("not_found")
    expect(await clientAt(place).getStatus({})).toMatchObject({
      state: "maintenance",
      maintenance_message: message,
      estimated_downtime_seconds: 600,
      restart_at,
    })
    const refused = await send(place, "/api/v1/users/@me", { route: routes.getMe, token: ada.token })
    expect(refused).toMatchObject({ status: 503, code: "maintenance" })
    const { error } = refused.body as { error: { retry_after: number } }
    expect(error).toMatchObject({ code: 503, message, state: "maintenance" })
    expect(error.retry_after).toBeGreaterThan(600)
    expect(error.retry_after).toBeLessThanOrEqual(900)
    expect(refused.headers.get("retry-after")).toBe(String(error.retry_after))
    // Nobody waits for a body, and nobody is looked up.
    expect(await refusal(clientAt(place).login({ username: ada.username, password: ada.password }))).toBe("maintenance")
    expect((await send(place, "/api/v1/servers", { token: "nonsense" })).code).toBe("maintenance")
  }

  await operator.setState({ state: "running" })
  await reached([...workers, late], "running")
  for (const place of workers) {
    expect((await ada.on(place).getMe()).id).toBe(ada.id)
    const raw = await identified(place, ada.token)
    raw.say({ op: 1 })
    await raw.op(11)
    expect(statuses(raw)).toEqual([])
    raw.close()
  }
})

test("a session that identifies between the announcement and the end is told as well", async ({ cluster }) => {
  const [worker] = await cluster.boot(1, { topology: attentive })
  const ada = await cluster.person("ada")
  const [told, late] = await Promise.all([identified(worker!, ada.token), open(worker!)])
  await operatorOf(cluster).setState({ state: "maintenance" })
  await told.op(12)
  late.say({ op: 2, d: { token: ada.token } })
  expect(await late.ended).toEqual(closedWith("server_maintenance"))
  expect(late.frames.map(({ op }) => op)).toEqual([10, 0, 12])
  const [status] = statuses(late) as { state: string; closing_in_seconds: number }[]
  expect(status!.state).toBe("maintenance")
  expect(status!.closing_in_seconds).toBeLessThanOrEqual(2)
})

test("the end of service: SERVER_STATUS shutting_down, then 4017; REST goes on", async ({ cluster }) => {
  const workers = (await cluster.boot(2, { topology: attentive })) as [Worker, Worker]
  const { ada, live, strangers } = await everyKind(cluster, workers)
  await operatorOf(cluster).setState({ state: "shutting_down" })
  const d = { state: "shutting_down", message: "Server shutting down", restart_at: null, closing_in_seconds: 2 }
  for (const raw of live) expect(await raw.op(12)).toEqual({ op: 12, d })
  for (const raw of [...live, ...strangers]) expect(await raw.ended).toEqual(closedWith("server_shutdown"))
  const raw = new Raw(workers[1])
  expect(await raw.ended).toEqual(closedWith("server_shutdown"))
  expect(raw.frames.map(({ op }) => op)).toEqual([10])
  expect((await ada.on(workers[0]).getMe()).id).toBe(ada.id)
})

test("a restart is announced and closes nobody; the return to running is not announced", async ({ cluster }) => {
  const workers = (await cluster.boot(2, { topology: attentive })) as [Worker, Worker]
  const operator = operatorOf(cluster)
  const { live, strangers } = await everyKind(cluster, workers)
  const d = (estimated_downtime_seconds: number) => ({
    state: "restarting",
    message: "Server is restarting",
    estimated_downtime_seconds,
  })
  await operator.setState({ state: "restarting" })
  for (const raw of live) expect(await raw.op(12)).toEqual({ op: 12, d: d(10) })
  await operator.setState({ state: "running" })
  await reached(workers, "running")
  await operator.setState({ state: "restarting", estimated_downtime_seconds: 30 })
  await until("the second announcement", () => live.every(raw => statuses(raw).length === 2))
  for (const raw of live) expect(statuses(raw)).toEqual([d(10), d(30)])
  for (const raw of [...live, ...strangers]) {
    raw.say({ op: 1 })
    await raw.op(11)
    raw.close()
  }
  for (const raw of strangers) expect(statuses(raw)).toEqual([])
})

test("an announcement that is taken back in time closes nobody", async ({ cluster }) => {
  const [worker] = await cluster.boot(1, { topology: attentive })
  const operator = operatorOf(cluster)
  const ada = await cluster.person("ada")
  const [kept, other] = await Promise.all([identified(worker!, ada.token), identified(worker!, ada.token)])
  await operator.setState({ state: "maintenance" })
  await kept.op(12)
  await operator.setState({ state: "running" })
  await reached([worker!], "running")
  // A second announcement ends later than the first would have.
  await operator.setState({ state: "shutting_down" })
  expect(await other.ended).toEqual(closedWith("server_shutdown"))
  expect(await kept.ended).toEqual(closedWith("server_shutdown"))
})

test("the gateway closes nobody for their client's version: REST says what is too old", async ({ cluster }) => {
  const [worker] = await cluster.boot(1, { config: { STARLING_MIN_CLIENT_VERSION: "a.1.0-49" } })
  const ada = await cluster.person("ada")
  const identify = (properties: unknown) => new Raw(worker!, { first: { op: 2, d: { token: ada.token, properties } } })
  const versions = ["a.1.0-48", "A.1.0-1", "a.1.0-49", "b.1.0-1", "1.0", "", 48, null, ["a.1.0-48"], undefined]
  for (const client_version of versions) {
    const raw = identify({ client_version, os: "linux" })
    await raw.event("READY")
    raw.close()
  }
})

describe("a worker that leaves", () => {
  test("tells every session to reconnect before it closes it, in batches, and all of them go on elsewhere", async ({
    cluster,
  }) => {
    // Several waves, over a second or so.
    const sessions = 700
    const [east, west] = (await cluster.boot(2, { topology: { gateway: { drain: { perSecond: 500 } } } })) as [
      Worker,
      Worker,
    ]
    const { channel, ada, lin } = await cluster.seed(sharedServer)
    const before: Raw[] = []
    for (let i = 0; i < sessions; i += 50)
      before.push(
        ...(await Promise.all(
          Array.from({ length: 50 }, (_, n) =>
            identified(east, lin.token, n % 2 === 0 ? {} : { query: "?encoding=msgpack" }),
          ),
        )),
      )
    const stranger = await open(east)

    const resumed: Promise<Raw>[] = before.map(async raw => {
      expect(await raw.ended).toEqual(closedWith("service_restart"))
      expect(raw.frames.filter(({ op }) => op === 7)).toEqual([{ op: 7, d: null }])
      expect(raw.frames.at(-1)!.op).toBe(7)
      const seq = Math.max(...raw.frames.map(({ s = 0 }) => s))
      for (;;) {
        const again = await open(west)
        again.say({ op: 6, d: { token: lin.token, session_id: sessionOf(raw), seq } })
        const answered = again.hear(({ t, op }) => t === "RESUMED" || op === 9).then(() => true)
        // A moment's refusal is no answer: hundreds come at once while shards change hands.
        if (await answered.catch(() => again.closing?.code !== closeCodes.try_again_later.code)) return again
      }
    })
    const left = new Set(before)
    for (const raw of before) raw.ended.then(() => left.delete(raw)).catch(() => {})
    const draining = east.drain()
    await until("the first wave has gone", () => left.size < sessions)
    // The others are still there, and hear what is said meanwhile.
    expect(left.size).toBeGreaterThan(0)
    // A moment's refusal is no answer: the hand-over goes on meanwhile.
    const say = async (content: string): Promise<string> => {
      for (;;) {
        const asked = ada.on(west).createMessage({ channel_id: channel.id, content, nonce: content })
        const answer = await asked.catch(() => undefined)
        if (answer) return answer.id
        expect(await refusal(asked)).toBe("unavailable")
      }
    }
    const sent: string[] = []
    while (left.size > 0) sent.push(await say(`while leaving ${sent.length}`))
    const after = await Promise.all(resumed)
    await draining
    expect(await stranger.ended).toEqual(closedWith("service_restart"))
    expect(stranger.frames.map(({ op }) => op)).toEqual([10])

    const last = await say("afterwards")
    const expected = [...sent, last]
    const heard = (raw: Raw) =>
      raw.frames.flatMap(({ t, d }) => (t === "MESSAGE_CREATE" ? [(d as { id: string }).id] : []))
    await until("everybody has heard the last", () => after.every(raw => heard(raw).at(-1) === last), {
      timeoutMs: 60_000,
    })
    for (const [i, raw] of after.entries()) {
      expect(raw.frames.some(({ op }) => op === 9)).toBe(false)
      expect([...heard(before[i]!), ...heard(raw)]).toEqual(expected)
    }
    for (const raw of after) raw.close()
  }, 120_000)
})
