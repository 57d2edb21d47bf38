/** One chaos run: warm up, faults, heal, final read, check. */
import { mkdir, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import postgres from "postgres"
import { compareIds } from "../../src/domain/core/snowflake.ts"
import { Mailbox } from "../kit/mailbox.ts"
import { until } from "../kit/until.ts"
import { checks } from "./checks/checks.ts"
import {
  faultsOf,
  nameIn,
  operationsOf,
  Recorder,
  type Finding,
  type History,
  type Operation,
  type Stored,
} from "./history.ts"
import { lookAtJobs } from "./jobs.ts"
import { watchMachine } from "./machine.ts"
import { longRun, planFaults, unleash, type FaultOutcome, type Schedule } from "./nemesis.ts"
import { populate, type Population } from "./people.ts"
import { randomFrom } from "./random.ts"
import { Reader } from "./reader.ts"
import { Rest } from "./rest.ts"
import type { StartSystem, System } from "./system.ts"
import { Presences } from "./presence.ts"
import { planActs, Workload } from "./workload.ts"

export interface ChaosOptions {
  start: StartSystem
  seed: number
  seconds: number
  /** For the data of the services, the history and the logs. */
  folder: string
  workers?: number
  heapMegabytes?: number
  /** Acts in a second. */
  rate?: number
  say?: (line: string) => void
  /** Is handed the system as soon as it runs, to stop it should the run be broken off. */
  onStart?: (system: System) => void
}

export interface ChaosResult {
  seed: number
  seconds: number
  schedule: Schedule
  outcomes: FaultOutcome[]
  history: History
  historyFile: string
  findings: Finding[]
  /** By the name that `counted` gives them, the last sample. */
  counters: Record<string, number>
  /** Counters and faults that should have been above 0 and are not. */
  missing: string[]
}

const warmUp = 2_000
/**
 * Nothing is promised about it. Workers that died often come back the later, and on a slow machine the start of three programs takes two
 * cores for half a minute.
 */
const healing = 120_000
const settling = 20_000
/** More than an event may be under way. */
const heardAfterMs = 1_200

export async function runChaos(options: ChaosOptions): Promise<ChaosResult> {
  const { seed, seconds, folder, workers = 3, rate = 40, say = () => {} } = options
  const schedule = planFaults(randomFrom(seed, "faults"), seconds * 1_000 - warmUp)
  // The faults may take longer than planned; the load goes on for as long as they do.
  const acts = planActs(randomFrom(seed, "acts"), seconds * 1_000 + 600_000, rate)
  await mkdir(folder, { recursive: true })
  const historyFile = join(folder, "history.jsonl")
  const recorder = new Recorder(historyFile)
  const rest = new Rest(recorder)
  const run = `c${seed.toString(36)}${Date.now().toString(36)}`

  say("starting the system")
  const { heapMegabytes } = options
  const mailbox = await Mailbox.open()
  const system = await options
    .start({
      folder: join(folder, "system"),
      workers,
      environment: {
        SMTP_URL: mailbox.url,
        STARLING_MAIL_FROM: "starling@chat.example",
        STARLING_MAILS_PER_HOUR: "1000",
      },
      ...(heapMegabytes !== undefined && { heapMegabytes }),
    })
    .catch(async (error: unknown) => {
      await mailbox.stop()
      throw error
    })
  options.onStart?.(system)
  const readers: Reader[] = []
  let presences: Presences | undefined
  const ending = new AbortController()
  const watching: Promise<void>[] = []
  try {
    const population = await populate(system.hosts[0]!.url, run, {
      writers: 4,
      wanderers: 2,
      subjects: 2,
      communities: 6,
    })
    const random = randomFrom(seed, "readers")
    readers.push(...readersOf(population, system, { recorder, rest, random: () => random.next() }))
    for (const reader of readers) reader.start()
    const present = (presences = new Presences(population, system, recorder))
    await until("every reader is live", () => present.isLive && readers.every(reader => reader.isLive), {
      timeoutMs: 20_000,
    })
    watching.push(
      watchMachine(recorder, ending.signal),
      sampleCounters(system, recorder, ending.signal),
      probe(system, rest, ending.signal),
    )

    say("warming up")
    const workload = new Workload({
      run,
      urls: system.urls,
      population,
      rest,
      recorder,
      random: randomFrom(seed, "guests"),
    })
    const load = workload.run(acts, ending.signal)
    await sleep(warmUp)
    say("faults")
    const steady = readers.filter(({ isSteady }) => isSteady)
    const done = await unleash({
      schedule,
      system,
      readers: steady,
      fatten: isFat => workload.fatten(isFat),
      recorder,
      calm: async () => {
        const since = performance.now()
        await until("every community accepts messages", () => workload.isWell(since), {
          timeoutMs: 12_000,
          everyMs: 50,
        }).catch(
          () => {}, // what lasts that long has to bear the next one, too
        )
      },
    })

    say("healing")
    for (const links of Object.values(system.links)) for (const link of links) link.set({})
    await healed(system, workers, readers)
    await until("those who look are live", () => present.isLive, { timeoutMs: healing })
    ending.abort()
    await Promise.all([load, ...watching])
    await workload.settle(settling)
    await lookAtJobs(system, population, { mailbox, recorder, patient: seconds * 1_000 >= longRun })
    const lookedAt = performance.now()
    await present.look({ patient: seconds * 1_000 >= longRun })
    for (const community of population.communities) {
      const last = await workload.sendLast(community)
      await until(
        `every reader has the last message of ${community.channel}`,
        () =>
          last !== undefined && steady.every(reader => compareIds(reader.newest(community.channel) ?? "0", last) >= 0),
        { timeoutMs: 15_000 },
      ).catch(() => {}) // the checkers say what is missing
    }
    // By then they have heard of what jobs did.
    await sleep(Math.max(0, lookedAt + heardAfterMs - performance.now()))
    for (const reader of readers) await reader.end()

    say("reading everything")
    await readAll(system, population, recorder)
    recorder.add({ type: "counters", values: await countersOf(system) })
    say("everybody leaves")
    await present.end({ patient: seconds * 1_000 >= longRun })
    const log = system.hosts.map(host => host.log()).join("\n")
    return await conclude({ ...options, schedule, historyFile, recorder, outcomes: [...done.values()], log })
  } finally {
    ending.abort()
    await Promise.allSettled(watching)
    for (const reader of readers) await reader.end()
    presences?.close()
    rest.close()
    await writeFile(join(folder, "program.log"), system.hosts.map(host => host.log()).join("\n"))
    await system.stop()
    await mailbox.stop()
    await recorder.close()
  }
}

function readersOf(
  { writers, wanderers, subjects, communities }: Population,
  { urls }: System,
  shared: { recorder: Recorder; rest: Rest; random: () => number },
): Reader[] {
  const channels = communities.map(({ channel }) => channel)
  const reader = (of: "writer" | "wanderer" | "subject") => (person: Population["guest"], at: number) =>
    new Reader({
      ...shared,
      name: `${person.name}'s`,
      client: person.name,
      login: person.login,
      token: person.token,
      url: urls[at % urls.length]!,
      encoding: at % 2 === 0 ? "json" : "msgpack",
      steady: of === "writer",
      channels,
    })
  return [...writers.map(reader("writer")), ...wanderers.map(reader("wanderer")), ...subjects.map(reader("subject"))]
}

/** What the program counts of itself, by the names used here. */
const counted: Readonly<Record<string, RegExp>> = {
  takeOvers: /^starling_shards_take_overs_total/,
  handOvers: /^starling_shards_hand_overs_total\{direction="in"/,
  refusedWrites: /^starling_lanes_refused_writes_total/,
  staleAppends: /^starling_log_append_answers_total\{answer="stale"/,
  unknownOutcomes: /^starling_lanes_unknown_outcomes_total/,
  republished: /^starling_outbox_republished_rows_total/,
  resumesSameWorker: /^starling_gateway_resumes_total\{outcome="same_worker"/,
  resumesOtherWorker: /^starling_gateway_resumes_total\{outcome="other_worker_alive"/,
  resumesDeadWorker: /^starling_gateway_resumes_total\{outcome="dead_worker"/,
  resumesInvalid: /^starling_gateway_resumes_total\{outcome="invalid"/,
  invalidSessions: /^starling_gateway_invalid_sessions_total/,
  gaps: /^starling_gateway_gaps_total/,
  postgresErrors: /^starling_postgres_errors_total/,
  redisErrors: /^starling_redis_errors_total/,
}

async function countersOf(system: System): Promise<Record<string, number>> {
  const values = Object.fromEntries(Object.keys(counted).map(name => [name, 0]))
  for (const series of await Promise.all(system.hosts.map(host => host.metrics())))
    for (const [name, value] of series)
      for (const [counter, pattern] of Object.entries(counted)) if (pattern.test(name)) values[counter]! += value
  return values
}

/** Every second, because what a worker counted after that is lost with it at kill -9. */
async function sampleCounters(system: System, recorder: Recorder, ended: AbortSignal): Promise<void> {
  while (!ended.aborted) {
    const values = await countersOf(system).catch(() => undefined)
    if (values) recorder.add({ type: "counters", values })
    await sleep(1_000, undefined, { signal: ended }).catch(() => {})
  }
}

/** Asks whether the program lives and is ready, past the proxies. */
async function probe(system: System, rest: Rest, ended: AbortSignal): Promise<void> {
  const ask = (path: "livez" | "readyz", url: string) =>
    rest.call({ client: "probe", session: "", action: { do: path }, method: "GET", url: `${url}/${path}`, fresh: true })
  while (!ended.aborted) {
    await Promise.all(system.hosts.flatMap(({ url }) => [ask("livez", url), ask("readyz", url)]))
    await sleep(500, undefined, { signal: ended }).catch(() => {})
  }
}

/** All processes are back, and all readers. */
async function healed(system: System, workers: number, readers: readonly Reader[]): Promise<void> {
  await until(
    "the system has healed",
    async () => {
      const counts = await Promise.all(system.hosts.map(host => host.metrics().catch(() => new Map<string, number>())))
      return (
        counts.every(
          series =>
            series.get('starling_processes{role="web"}') === workers &&
            (series.get('starling_processes{role="job"}') ?? 0) > 0,
        ) && readers.every(reader => reader.isLive || reader.isOver)
      )
    },
    { timeoutMs: healing, everyMs: 200 },
  )
}

/**
 * Every channel from its first message on, as REST shows it, with the times of the commits from the
 * table itself.
 */
async function readAll(system: System, { writers, communities }: Population, recorder: Recorder): Promise<void> {
  const sql = postgres(system.postgres.url, { max: 1, onnotice: () => {} })
  try {
    for (const { channel } of communities) {
      const messages: Stored[] = []
      for (let after = "0"; ; after = messages.at(-1)!.id) {
        const url = `${system.hosts[0]!.url}/api/v1/channels/${channel}/messages?limit=100&after=${after}`
        const answer = await fetch(url, {
          headers: { authorization: `Bearer ${writers[0]!.token}` },
          signal: AbortSignal.timeout(10_000),
        })
        if (!answer.ok) throw new Error(`the final read was answered ${answer.status}: ${await answer.text()}`)
        const page = (await answer.json()) as { id: string; author_id: string; content: string | null }[]
        messages.push(...page.map(({ id, author_id: author, content }) => ({ id, author, content: nameIn(content) })))
        if (page.length < 100) break
      }
      const rows = await sql<{ id: string; committed: string | null }[]>`
        SELECT id::text, (extract(epoch FROM pg_xact_commit_timestamp(xmin)) * 1000000)::bigint::text AS committed
        FROM messages WHERE channel_id = ${channel} AND edited_at IS NULL AND NOT deleted`
      const committed = new Map(rows.map(row => [row.id, row.committed]))
      for (const message of messages) {
        const time = committed.get(message.id)
        if (time) message.committed = Number(time)
      }
      recorder.add({ type: "final", channel, messages })
    }
  } finally {
    await sql.end({ timeout: 2 })
  }
}

/** Which counters show that a fault had its effect on the program. */
const shownBy: readonly (readonly [fault: RegExp, counters: readonly string[]])[] = [
  [/^(worker killed|worker paused|all workers killed)/, ["takeOvers"]],
  [/^worker paused for/, ["refusedWrites", "staleAppends", "incarnationsOver"]],
  [/^worker paused in the middle/, ["refusedWrites"]],
  // Clients may be faster than the news of the death: then the worker counts as one that lives.
  [/^(worker killed|all workers killed)/, ["resumesDeadWorker", "resumesOtherWorker"]],
  [/^clients (reset|cut off)/, ["resumesSameWorker", "resumesOtherWorker"]],
  [/^workers told to end/, ["handOvers"]],
  [/^job worker/, ["toldAfterJobFault"]],
  [/^postgres (killed|cut off|replies lost|out of connections|disk full)/, ["postgresErrors", "unknownOutcomes"]],
  // So short a pause makes nothing fail; but /readyz notices.
  [/^(postgres paused|postgres 2 s late|redis paused)/, ["unready"]],
  [/^redis (killed|cut off|replies lost|out of memory|paused (5|30))/, ["redisErrors"]],
  [/^redis (killed, nothing|replaced)/, ["newSessions", "incarnationsOver", "redisErrors"]],
]

async function conclude({
  schedule,
  recorder,
  outcomes,
  seed,
  seconds,
  historyFile,
  log,
}: ChaosOptions & {
  schedule: Schedule
  recorder: Recorder
  outcomes: FaultOutcome[]
  historyFile: string
  log: string
}): Promise<ChaosResult> {
  const history = recorder.entries
  const samples = history.filter(entry => entry.type === "counters")
  const counters: Record<string, number> = { ...samples.at(-1)?.values }
  counters["resumed"] = history.filter(({ type }) => type === "resumed").length
  counters["unready"] = operationsOf(history).filter(
    ({ action, status }) => action.do === "readyz" && status === 503,
  ).length
  counters["invalidated"] = history.filter(({ type }) => type === "invalid").length
  counters["newSessions"] = history.filter(({ type }) => type === "ready").length - readersAtFirst(history)
  counters["incarnationsOver"] = log.match(/incarnation ended/g)?.length ?? 0
  const jobFault = faultsOf(history).find(({ kind }) => kind === "job")
  const isBarrier = ({ action, outcome }: Operation) =>
    outcome === "ok" && (action.do === "hide" || action.do === "remove")
  counters["barriers"] = operationsOf(history).filter(isBarrier).length
  counters["toldAfterJobFault"] = history.filter(({ type, at }) => type === "told" && at > (jobFault?.to ?? 0)).length
  const done = outcomes.filter(({ skipped }) => skipped === undefined)
  const missing = done
    .filter(({ count, failed }) => count === 0 || failed !== undefined)
    .map(({ fault, failed }) => `fault: ${fault}${failed === undefined ? "" : `, ${failed}`}`)
  for (const [fault, names] of shownBy)
    if (done.some(outcome => fault.test(outcome.fault)) && names.every(name => !counters[name]))
      missing.push(`counter: ${names.join(" or ")} after ${fault.source}`)
  const findings = Object.values(checks).flatMap(check => check(history))
  return { seed, seconds, schedule, outcomes, history, historyFile, findings, counters, missing }
}

const readersAtFirst = (history: History) =>
  new Set(history.flatMap(entry => (entry.type === "ready" ? [entry.reader] : []))).size
