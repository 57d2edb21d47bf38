import { getHeapStatistics } from "node:v8"
import { Registry } from "prom-client"
import type { ErrorCode } from "../contract/core/errors.ts"
import { closeCodes, opcodes } from "../contract/core/gateway-codes.ts"
import { openDescriptors, descriptorLimit } from "./descriptors.ts"
import { observeCollections } from "./garbage-collections.ts"
import { Holdings } from "./holdings.ts"
import { LoopPeriod, watchLoop } from "./loop-delay.ts"
import { SlowRequests } from "./slow-requests.ts"
import { Tracer, type TraceExport, type TraceExportOptions } from "./traces.ts"
import { declareIn, type Counter, type Histogram } from "./instruments.ts"
import { release } from "./release.ts"

export interface MetricsOptions {
  /** The name of the process's place, such as "web-0". */
  readonly worker?: string
  /** Milliseconds between two looks at the event loop, each of which wakes a process that would sleep. */
  readonly loopEveryMs?: number
  /** Where spans of traced requests go, if any are. */
  readonly traces?: (counted: TraceExportOptions["counted"]) => TraceExport
  /** The share of requests that are traced. */
  readonly traceShare?: number
}

/**
 * What one process counts, by area. It keeps:
 *   MET1  A process never has 2,400 series, whatever clients send: every open label has a
 *       `most`, the rest is "other". A process in ordinary use has about 700, and counters of
 *       all processes of a host are added up, so this bounds a scrape by a host as well.
 * Counting allocates nothing once a child exists: `counter.inc(n)`, `resumes.same_worker.inc()`, or a child kept from `family.of(…)`.
 * Durations are seconds, sizes bytes.
 */
export function createMetrics({ worker = "primary", loopEveryMs = 100, traces, traceShare = 0 }: MetricsOptions = {}) {
  const registry = new Registry()
  const declare = declareIn(registry)
  const figuresLoop = new LoopPeriod()
  const observe = loopMetrics(declare, worker)
  const loop = watchLoop(loopEveryMs, seconds => {
    observe(seconds)
    figuresLoop.observe(seconds)
  })
  const collections = observeCollections(collectionsMetrics(declare))

  const exported = tracesMetrics(declare)
  const spans = traces?.(exported)
  const holdings = new Holdings()
  holdings.show("process", processNow)

  const metrics = {
    registry,
    /** What is too much for series: shown on request. */
    holdings,
    http: httpMetrics(declare, holdings),
    gateway: gatewayMetrics(declare),
    homes: homesMetrics(declare),
    lanes: lanesMetrics(declare),
    outbox: outboxMetrics(declare),
    bus: busMetrics(declare),
    sessions: sessionsMetrics(declare),
    shards: shardsMetrics(declare),
    log: logMetrics(declare),
    presence: presenceMetrics(declare),
    processes: processesMetrics(declare),
    pools: poolsMetrics(declare),
    automod: automodMetrics(declare),
    jobs: jobsMetrics(declare),
    pushes: pushesMetrics(declare),
    pictures: picturesMetrics(declare),
    search: searchMetrics(declare),
    files: filesMetrics(declare),
    telemetry: telemetryMetrics(declare),
    signIns: signInsMetrics(declare),
    host: hostMetrics(declare),
    /** For the figures of operators, which end its period. */
    figuresLoop,
    /** Begins spans; undefined: nothing is traced. */
    tracer: spans && new Tracer({ spans, share: traceShare }),
    /** Sends what spans wait. */
    finishTraces: async () => spans?.stop(),
    /** Releases the observers of the event loop and of garbage collections. */
    close() {
      loop.stop()
      collections.stop()
    },
  }

  processMetrics(declare)
  return metrics
}

export type Metrics = ReturnType<typeof createMetrics>

type Declare = ReturnType<typeof declareIn>

/** Plain statements, and the lanes' own connections. */
const pools = ["read", "lane"] as const

/** What a process has connections to Redis for that are answered at once: blocking reads are none. */
const redisPurposes = ["admission", "sessions", "jobs", "membership", "bus", "log", "replay"] as const
export type RedisPurpose = (typeof redisPurposes)[number]

/** What HTTP keeps beside each of its routes. */
export interface RouteMetrics {
  /** `status` 0: the client was gone before the reply. */
  observe(status: number, seconds: number): void
}

export type SignInWay = "password" | "provider" | "passkey" | "second_factor" | "operator"
export type SignInOutcome = "done" | "challenged" | "wrong" | "locked" | "refused" | "failed"

const statusClasses = ["aborted", "1xx", "2xx", "3xx", "4xx", "5xx"] as const

function processNow() {
  const { user, system } = process.cpuUsage()
  const heap = getHeapStatistics()
  return {
    pid: process.pid,
    node: process.version,
    uptime_seconds: Math.floor(process.uptime()),
    cpu_seconds: (user + system) / 1e6,
    memory_bytes: process.memoryUsage.rss(),
    heap_bytes: heap.used_heap_size,
    heap_limit_bytes: heap.heap_size_limit,
  }
}

function httpMetrics(declare: Declare, holdings: Holdings) {
  const slow = new SlowRequests()
  holdings.show("slowest_requests", () =>
    slow.slowest.map(({ endedAtMs, ...request }) => ({ ...request, ended_at: new Date(endedAtMs).toISOString() })),
  )
  const requests = declare.counterFamily<[route: string, method: string, status: string]>(
    "starling_http_requests_total",
    "Answered requests, by route template, method and status class",
    ["route", "method", "status"],
    { most: 280 },
  )
  const durations = declare.histogramFamily<[route: string, method: string]>(
    "starling_http_request_duration_seconds",
    "Time from the first byte of a request to its response",
    ["route", "method"],
    [0.005, 0.02, 0.1, 0.5, 2.5],
    { most: 66 },
  )
  return {
    /**
     * Once per route, when the routes are built. `template` as declared (`/channels/:channel_id`),
     * never with ids in it.
     */
    route(method: string, template: string): RouteMetrics {
      // Children are made at the first request: of 260 routes most never see one, and MET1 has to
      // hold for the rest.
      const byClass: Counter[] = []
      let duration: Histogram | undefined
      return {
        observe(status, seconds) {
          const at = Math.trunc(status / 100)
          const counter = (byClass[at] ??= requests.of(template, method, statusClasses[at] ?? "other"))
          counter.inc()
          duration ??= durations.of(template, method)
          duration.observe(seconds)
          slow.note(method, template, status, seconds)
        },
      }
    },
    inFlight: declare.gauge("starling_http_requests_in_flight", "Requests without a response yet"),
    /** Scope is the bucket that was empty: global, ip, user, route, … */
    refused: declare.counterFamily<[scope: string]>(
      "starling_http_refused_total",
      "Requests refused by a rate limit, by scope of the limit",
      ["scope"],
      { most: 12 },
    ),
    /** `lease`: what was taken from the buckets before is left. */
    admitted: declare.counters(
      "starling_http_admitted_total",
      "Requests that the rate limits let in, by who said so: a call into Redis, or a lease that a worker has",
      "by",
      ["redis", "lease"],
    ),
    leasedRequests: declare.gauge(
      "starling_http_leased_requests",
      "Requests that leases on rate limits let a worker let in without asking Redis. `http.limits` bounds them",
    ),
    /** What a worker does not take on beside what it has, no matter who asks. */
    overload: declare.counters(
      "starling_http_overload_refusals_total",
      "Requests and connections refused because a worker holds too many already, by what it holds",
      "held",
      ["downloads", "requests", "connections", "sockets", "unidentified_sockets"],
    ),
    replyBytesHeld: declare.gauge(
      "starling_http_reply_bytes_held",
      "Bytes of long answers that wait for their readers. `http.downloads.maxBytes` is the bound",
    ),
  }
}

function gatewayMetrics(declare: Declare) {
  const frameCodes = Object.values(opcodes).map(({ op }) => op)
  const endings = [1005, 1006, ...Object.values(closeCodes).map(({ code }) => code)]
  return {
    connections: declare.gauge("starling_gateway_connections", "Open WebSocket connections"),
    sessions: declare.gauges("starling_gateway_sessions", "Identified sessions, by state", "state", [
      "live",
      "reading",
      "detached",
    ]),
    framesIn: declare.counterFamily<[op: number]>(
      "starling_gateway_frames_in_total",
      "Frames received, by op",
      ["op"],
      {
        most: 40,
        only: frameCodes,
      },
    ),
    publishes: declare.counter(
      "starling_gateway_publishes_total",
      "Calls of publish(), one per event and group of subscribers",
    ),
    deliveries: declare.counter(
      "starling_gateway_deliveries_total",
      "Events written to the sockets of sessions, published or sent",
    ),
    sentBytes: declare.counter("starling_gateway_sent_bytes_total", "Payload bytes written to sockets"),
    identifies: declare.counter("starling_gateway_identifies_total", "Sessions created with IDENTIFY"),
    resumes: declare.counters("starling_gateway_resumes_total", "RESUMEs, by where the session was before", "outcome", [
      "same_worker",
      "other_worker_alive",
      "dead_worker",
      "invalid",
    ]),
    replayReads: declare.counter(
      "starling_gateway_replay_reads_total",
      "Reads of other workers' logs for resumed sessions, one per chunk",
    ),
    joins: declare.counter(
      "starling_gateway_joins_total",
      "Ranges of positions reserved for segments of other workers' logs",
    ),
    registrations: declare.counter(
      "starling_gateway_registrations_total",
      "Requests to shard owners to receive the events of homes",
    ),
    membershipQueries: declare.counter(
      "starling_gateway_membership_queries_total",
      "Queries of the memberships of resumed users",
    ),
    invalidSessions: declare.counter("starling_gateway_invalid_sessions_total", "INVALID_SESSION frames sent"),
    closes: declare.counterFamily<[code: number]>(
      "starling_gateway_closes_total",
      "Connections closed, by close code",
      ["code"],
      {
        most: 40,
        only: endings,
      },
    ),
    gaps: declare.counter("starling_gateway_gaps_total", "Gaps found in this worker's delivery log"),
    cursorsMoved: declare.counter(
      "starling_gateway_cursors_moved_total",
      "Delivery cursors (of a user in a server or DM) written because clients acknowledged a later position",
    ),
    fallenToReading: declare.counter(
      "starling_gateway_fallen_to_reading_total",
      "Live sessions that exceeded their socket budget and went back to reading the log",
    ),
    readingChanges: declare.counter(
      "starling_gateway_changes_read_total",
      "Live sessions that went back to reading the log because a change of roles or overrides shows or hides many channels",
    ),
    lagSeconds: declare.histogram(
      "starling_gateway_lag_seconds",
      "Time from the append of an event to this worker's delivery log until it is written to sockets, by the clocks of Redis and of the worker. One event per slice of publishing",
      [0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.125, 0.25, 0.5, 1, 5],
    ),
    deliverySeconds: declare.histogram(
      "starling_gateway_delivery_seconds",
      "Time from the turn that took a new message until this worker wrote it to sockets: its commit, its append and its publishing together, by the clocks of the two workers. What was published again after a take-over counts with its whole age",
      [0.005, 0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 10],
    ),
    roundTripSeconds: declare.histogram(
      "starling_gateway_round_trip_seconds",
      "Time from a WebSocket ping to the client's pong. A worker asks one client at a time, at most one a second, after a heartbeat",
      [0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 5],
    ),
    publishSeconds: declare.histogram(
      "starling_gateway_publish_duration_seconds",
      "Duration of one slice of publishing within a turn of the event loop",
      [0.000_1, 0.000_5, 0.002, 0.005, 0.02, 0.1],
    ),
  }
}

function homesMetrics(declare: Declare) {
  return {
    loaded: declare.gauge("starling_homes_loaded", "Homes in memory"),
    activations: declare.counter("starling_homes_activations_total", "Homes loaded from PostgreSQL"),
    sleeps: declare.counter(
      "starling_homes_sleeps_total",
      "Homes removed from memory, because idle or after a failed write",
    ),
    /** Keep `turns.of(actor, command)` beside the command. */
    turns: declare.counterFamily<[actor: string, command: string]>(
      "starling_homes_turns_total",
      "Turns of commands, by actor and command",
      ["actor", "command"],
      { most: 200 },
    ),
    refusals: declare.counterFamily<[code: ErrorCode]>(
      "starling_homes_refusals_total",
      "Commands refused, by error code",
      ["code"],
      { most: 320 },
    ),
    mailboxFull: declare.counter("starling_homes_mailbox_full_total", "Commands refused because a bound was reached"),
    unable: declare.counter(
      "starling_homes_unable_total",
      "Commands that came while the worker had not renewed its lease, or was not sure of PostgreSQL: they waited for that, or were refused",
    ),
  }
}

function lanesMetrics(declare: Declare) {
  return {
    batches: declare.counter("starling_lanes_batches_total", "Successful group commits"),
    batchTurns: declare.histogram(
      "starling_lanes_batch_turns",
      "Turns in one group commit",
      [1, 2, 5, 10, 20, 50, 100],
    ),
    commitSeconds: declare.histogram(
      "starling_lanes_commit_duration_seconds",
      "Time from sending a batch to its commit",
      [0.001, 0.002, 0.005, 0.01, 0.025, 0.1, 0.5, 2],
    ),
    refusedWrites: declare.counter(
      "starling_lanes_refused_writes_total",
      "Batches refused by the fence, because this worker's generation had ended",
    ),
    guiltyTurns: declare.counter("starling_lanes_guilty_turns_total", "Turns that made their batch fail"),
    unknownOutcomes: declare.counter(
      "starling_lanes_unknown_outcomes_total",
      "Batches whose connection was lost during the commit",
    ),
    lineagesLost: declare.counter(
      "starling_lanes_lineages_lost_total",
      "Times this worker ended because PostgreSQL had lost what it had committed",
    ),
  }
}

function outboxMetrics(declare: Declare) {
  return {
    written: declare.counter("starling_outbox_written_rows_total", "Outbox rows committed"),
    republished: declare.counter("starling_outbox_republished_rows_total", "Outbox rows republished after a take-over"),
    confirmed: declare.counter("starling_outbox_confirmed_rows_total", "Outbox rows that are completely published"),
    deleted: declare.counter("starling_outbox_deleted_rows_total", "Outbox rows deleted"),
    stuckSeconds: declare.gauge(
      "starling_outbox_stuck_seconds",
      "Time since something was last committed or published, while something waits. From 3 s on the worker is not ready",
    ),
    comparisons: declare.counter(
      "starling_outbox_comparisons_total",
      "Comparisons of delivery logs with the outbox after a fail-over of Redis",
    ),
    unconfirmed: declare.gauge("starling_outbox_unconfirmed_rows", "Outbox rows committed and not yet confirmed"),
  }
}

function busMetrics(declare: Declare) {
  return {
    asks: declare.counters("starling_bus_asks_total", "Asks to other workers, by outcome", "outcome", [
      "answered",
      "refused",
      "moved",
      "timed_out",
      "given_up",
      "failed",
    ]),
    localAsks: declare.counter("starling_bus_local_asks_total", "Asks answered on the same worker"),
    askSeconds: declare.histogram(
      "starling_bus_ask_duration_seconds",
      "Time from asking another worker to its answer",
      [0.000_5, 0.001, 0.002_5, 0.01, 0.05, 0.25, 1, 5],
    ),
    tells: declare.counter("starling_bus_tells_total", "Tells sent to another worker"),
    messages: declare.counters(
      "starling_bus_messages_total",
      "Asks, answers and notices sent to other workers: through a `socket` of the same host, or through `redis`",
      "road",
      ["socket", "redis"],
    ),
    sockets: declare.gauge("starling_bus_sockets", "Workers of the same host that are reached through a socket"),
    socketsLost: declare.counter(
      "starling_bus_sockets_lost_total",
      "Sockets to workers of the same host that ended while messages went through them, with their worker or before it",
    ),
    pending: declare.gauge("starling_bus_pending_asks", "Asks waiting for an answer"),
  }
}

function sessionsMetrics(declare: Declare) {
  return {
    looks: declare.counters(
      "starling_sessions_looks_total",
      "Looks at access sessions: `kept` in the worker's own memory, or `asked` of Redis",
      "answer",
      ["kept", "asked"],
    ),
    kept: declare.gauge("starling_sessions_kept", "Access sessions in the worker's own memory"),
    dropSeconds: declare.histogram(
      "starling_sessions_drop_duration_seconds",
      "Time until another worker had dropped sessions that ended or changed, or was known to keep none",
      [0.001, 0.002_5, 0.01, 0.05, 0.25, 1, 2, 5],
    ),
  }
}

function shardsMetrics(declare: Declare) {
  return {
    owned: declare.gauge("starling_shards_owned", "Shards this worker owns"),
    takeOvers: declare.counter(
      "starling_shards_take_overs_total",
      "Shards taken over because they had no living owner",
    ),
    handOvers: declare.counters(
      "starling_shards_hand_overs_total",
      "Shards handed over between living workers",
      "direction",
      ["in", "out"],
    ),
  }
}

/** The delivery logs: appends as an owner, reads as a listener. */
function logMetrics(declare: Declare) {
  return {
    appends: declare.counter("starling_log_appends_total", "Calls of the append script"),
    appendedEvents: declare.counter("starling_log_appended_events_total", "Events appended to delivery logs"),
    /** Per shard of a call. `stale` is an append under an epoch that is over. */
    answers: declare.counters(
      "starling_log_append_answers_total",
      "Results of the append script, per shard",
      "answer",
      ["ok", "dup", "link", "stale", "nolog"],
    ),
    readEvents: declare.counter("starling_log_read_events_total", "Events read from this worker's delivery log"),
    ownEvents: declare.counter(
      "starling_log_own_events_total",
      "Events that this worker appended to its own delivery log and did not read from it",
    ),
    memoryBytes: declare.gauge("starling_log_memory_bytes", "Bytes of this worker's delivery log in memory"),
  }
}

function presenceMetrics(declare: Declare) {
  return {
    due: declare.gauge("starling_presence_due_users", "Users whose presence waits to be evaluated"),
    told: declare.counter("starling_presence_changes_total", "Presence changes sent to other users"),
    shed: declare.counter("starling_presence_shed_total", "Presence changes dropped because too many waited"),
  }
}

function processesMetrics(declare: Declare) {
  return {
    stuck: declare.counter(
      "starling_processes_stuck_total",
      "Workers killed by their primary because they did not respond",
    ),
  }
}

function poolsMetrics(declare: Declare) {
  return {
    queries: declare.counters(
      "starling_postgres_queries_total",
      "Queries sent to PostgreSQL, by pool. A batch of a lane counts as one",
      "pool",
      pools,
    ),
    inFlight: declare.gauges(
      "starling_postgres_queries_in_flight",
      "Queries without an answer yet, by pool",
      "pool",
      pools,
    ),
    errors: declare.counters("starling_postgres_errors_total", "Queries that failed, by pool", "pool", pools),
    /** Keep the children of a group beside it. */
    statements: declare.counterFamily<[group: string]>(
      "starling_postgres_statements_total",
      "Plain statements that ended, by group: what is kept of one subject in one file",
      ["group"],
      { most: 80 },
    ),
    statementSeconds: declare.counterFamily<[group: string]>(
      "starling_postgres_statement_seconds_total",
      "Seconds that plain statements took, with their wait for a connection, by group. Divided by starling_postgres_statements_total it is the mean",
      ["group"],
      { most: 80 },
    ),
    waitSeconds: declare.histogram(
      "starling_postgres_pool_wait_seconds",
      "Time for which plain statements waited because every connection of the pool was busy. Those that did not wait are not in it",
      [0.001, 0.005, 0.02, 0.1, 0.5, 2],
    ),
    redisWrites: declare.counters(
      "starling_redis_writes_total",
      "Writes to connections to Redis, by what the connection is for. Commands of one turn of the event loop leave in one write",
      "purpose",
      redisPurposes,
    ),
    redisSeconds: declare.histogramFamily<[purpose: RedisPurpose]>(
      "starling_redis_round_trip_seconds",
      "Time from a write to Redis to the answer of its last command, by what the connection is for. One write at a time is timed on each connection",
      ["purpose"],
      [0.000_5, 0.001, 0.002_5, 0.01, 0.05, 0.25],
      { most: redisPurposes.length, only: redisPurposes },
    ),
    replicaReads: declare.counters(
      "starling_postgres_replica_reads_total",
      "Reads that the replica of PostgreSQL may answer, by who was asked: the replica, or the primary because the replica was behind or away or the user had just changed something",
      "by",
      ["replica", "primary"],
    ),
    replicaLag: declare.gauge(
      "starling_postgres_replica_lag_seconds",
      "By how much the replica of PostgreSQL may be behind; without a replica 0, while it is unknown 1e9",
    ),
    redisErrors: declare.counterFamily<[connection: string]>(
      "starling_redis_errors_total",
      "Redis commands and connections that failed, by connection",
      ["connection"],
      { most: 10 },
    ),
  }
}

/** Requests to a bucket; files in a folder are not counted. */
function filesMetrics(declare: Declare) {
  return {
    requests: declare.counters(
      "starling_file_store_requests_total",
      "Requests to the object store that has the files, by outcome. `repeated` are those that failed and were sent again",
      "outcome",
      ["done", "missing", "repeated", "refused", "failed"],
    ),
    seconds: declare.histogram(
      "starling_file_store_request_duration_seconds",
      "Time from a request to the object store to the head of its answer, with what was sent again",
      [0.01, 0.05, 0.25, 1, 4],
    ),
    bytes: declare.counters("starling_file_store_bytes_total", "Bytes of files, by direction", "direction", [
      "read",
      "written",
    ]),
    troubles: declare.gauge(
      "starling_file_store_troubled",
      "Connections to an object store whose latest request was refused or failed: 0 is well",
    ),
  }
}

function telemetryMetrics(declare: Declare) {
  return {
    lost: declare.counter("starling_telemetry_lost_total", "Timings that could not be stored"),
    cspReports: declare.counter(
      "starling_csp_reports_total",
      "Violations of content security policies that browsers reported",
    ),
  }
}

function automodMetrics(declare: Declare) {
  return {
    questions: declare.counters(
      "starling_automod_classifier_questions_total",
      "Questions to classifiers about stored messages, by outcome. `refused`: the classifier does not take the text; `busy`, and `resting` after failures: it was not asked yet; these, `late` and `failed` are asked again for five minutes",
      "outcome",
      ["answered", "refused", "late", "failed", "busy", "resting"],
    ),
    unclassified: declare.counters(
      "starling_automod_unclassified_total",
      "Messages that no classifier has judged, by reason: the classifier does not take the text, gave no answer within five minutes, or too many messages waited",
      "reason",
      ["refused", "late", "overloaded"],
    ),
    texts: declare.counters(
      "starling_automod_texts_total",
      "Texts given to the auto-moderation threads, by outcome. Unless it is `judged`, the message passes the rules that judge it there, or is refused with 503 if that is because of others",
      "outcome",
      ["judged", "late", "overloaded"],
    ),
    textSeconds: declare.histogram(
      "starling_automod_text_duration_seconds",
      "Time from a text's question to the auto-moderation threads to its answer",
      [0.01, 0.1, 1],
    ),
    textsWaiting: declare.gauge("starling_automod_texts_waiting", "Texts that wait for the auto-moderation threads"),
    unjudged: declare.counters(
      "starling_automod_unjudged_total",
      "Rules that a message passed without a verdict, by reason",
      "reason",
      ["too_expensive", "late", "overloaded"],
    ),
    threadsEnded: declare.counter(
      "starling_automod_threads_ended_total",
      "Auto-moderation threads that took too long or failed and were replaced",
    ),
  }
}

function pushesMetrics(declare: Declare) {
  return declare.counters(
    "starling_pushes_total",
    "Pushes to browsers, by outcome. `gone`: the subscription is forgotten; `later`: the push service is asked again for twelve hours, after which it is `late`; `refused`: by the push service, see the log; `overloaded`: messages that were not pushed because too many waited",
    "outcome",
    ["sent", "gone", "later", "refused", "late", "overloaded"],
  )
}

function jobsMetrics(declare: Declare) {
  return {
    done: declare.counterFamily<[job: string, outcome: "done" | "retried" | "deferred" | "failed"]>(
      "starling_jobs_total",
      "Job runs, by outcome",
      ["job", "outcome"],
      { most: 90 },
    ),
    seconds: declare.histogramFamily<[job: string]>(
      "starling_jobs_duration_seconds",
      "Duration of one job run",
      ["job"],
      [0.01, 0.1, 1, 10],
      { most: 20 },
    ),
    waiting: declare.gauge("starling_jobs_waiting", "Runnable jobs that wait for a worker"),
    oldestSeconds: declare.gauges(
      "starling_jobs_oldest_waiting_seconds",
      "How long the oldest runnable job has waited, by queue; 0: none waits. Looked at every five seconds",
      "queue",
      ["jobs", "pictures", "classifiers", "pushes"],
    ),
  }
}

function signInsMetrics(declare: Declare) {
  return {
    done: declare.counterFamily<[way: SignInWay, outcome: SignInOutcome]>(
      "starling_sign_ins_total",
      "Attempts to sign in, by way and outcome. `challenged`: a second factor is asked for; `wrong`: the password, code, challenge or answer of the provider; `refused`: by a bar of the account or a rule; `failed`: nothing was decided, because something did not answer",
      ["way", "outcome"],
      { most: 30 },
    ),
  }
}

function tracesMetrics(declare: Declare) {
  return declare.counters(
    "starling_traces_spans_total",
    "Spans of traced requests, by outcome: taken by the collector, or left out because it is away, refuses them, or too many wait",
    "outcome",
    ["exported", "dropped"],
  )
}

function hostMetrics(declare: Declare) {
  return {
    freeBytes: declare.gauge(
      "starling_data_free_bytes",
      "Bytes that are free for this program on the file system of DATA_DIR. Looked at every ten seconds",
    ),
    sizeBytes: declare.gauge("starling_data_size_bytes", "Size of the file system of DATA_DIR"),
  }
}

function collectionsMetrics(declare: Declare) {
  return declare.histogramFamily<[kind: "minor" | "major" | "incremental" | "weak"]>(
    "starling_gc_duration_seconds",
    "Pauses for garbage collections, by kind. While one lasts the process does nothing else",
    ["kind"],
    [0.001, 0.005, 0.02, 0.1],
    { most: 4 },
  )
}

function picturesMetrics(declare: Declare) {
  return {
    encoded: declare.counterFamily<[use: string, outcome: string]>(
      "starling_pictures_total",
      "Pictures that job workers decoded to encode them again, by what they are for and by outcome",
      ["use", "outcome"],
      { most: 12 },
    ),
    unanswered: declare.counter(
      "starling_pictures_unanswered_total",
      "Uploads of pictures that were answered with 503 because no job worker had re-encoded them in time",
    ),
  }
}

function searchMetrics(declare: Declare) {
  return {
    behindSeconds: declare.gauge(
      "starling_search_behind_seconds",
      "How long the first message has waited that the search index has not read within seconds; 0: there is none. Looked at once a minute",
    ),
  }
}

/** A total has no process; this one is of use only by process. */
function loopMetrics(declare: Declare, worker: string): (seconds: number) => void {
  const loopDelays = declare.histogramFamily<[worker: string]>(
    "starling_event_loop_delay_seconds",
    "How late the event loop was at each look: 10 a second in web workers, 4 in others, 2 while there is next to nothing to do",
    ["worker"],
    [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 5],
    { most: 1 },
  )
  const delay = loopDelays.of(worker)
  return seconds => delay.observe(seconds)
}

function processMetrics(declare: Declare) {
  const node = process.versions.node
  declare.info("starling_build_info", "What runs: its version, its commit and the version of Node.js", {
    ...release,
    node,
  })
  declare.counter("starling_process_cpu_seconds_total", "User and system CPU time of the process").from(() => {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1e6
  })
  let resident = 0
  declare.gauge("starling_process_resident_memory_bytes", "Resident memory of the process").from(() => {
    try {
      resident = process.memoryUsage.rss()
    } catch (error) {
      // Node opens a file for it; with no descriptor left the number of last time has to do.
      if (!["EMFILE", "ENFILE"].includes((error as NodeJS.ErrnoException).code ?? "")) throw error
    }
    return resident
  })
  declare
    .gauge(
      "starling_process_open_descriptors",
      "Open file descriptors of the process; 0 where the kernel does not tell",
    )
    .from(openDescriptors)
  declare
    .gauge("starling_process_descriptor_limit", "File descriptors that the process may open (`ulimit -n`)")
    .from(descriptorLimit)
  declare
    .gauge("starling_process_heap_limit_bytes", "Largest JavaScript heap that the process may have")
    .from(() => getHeapStatistics().heap_size_limit)
  declare
    .gauge("starling_process_heap_used_bytes", "JavaScript heap in use")
    .from(() => getHeapStatistics().used_heap_size)
}
