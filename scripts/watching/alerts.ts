/**
 * The alerts that we would have wake somebody. From them come `deploy/prometheus/rules.yml`, the
 * runbook, and the tests that have each of them fire and stay silent.
 */
export interface Alert {
  readonly name: string
  /** `page`: users notice it now. `ticket`: they will, if nobody acts in the coming days. */
  readonly severity: "page" | "ticket"
  readonly expr: string
  /** Minutes for which it must hold. */
  readonly forMinutes: number
  /** One line, as it is sent. */
  readonly summary: string
  /** What users notice, and what it means. */
  readonly meaning: string
  /** What to do, in this order. */
  readonly steps: readonly string[]
  readonly example: Example
}

/** Series in promtool's notation, one value a minute. */
interface Example {
  readonly fires: Readonly<Record<string, string>>
  readonly silent: Readonly<Record<string, string>>
  /** When it is looked at; after half an hour where left out. */
  readonly firesAtMinute?: number
  /** Of the alert that fires, beside its severity. */
  readonly labels?: Readonly<Record<string, string>>
}

/** The share of what a histogram observed above one of its bounds. */
export const above = (histogram: string, seconds: number, minutes = 5): string =>
  `1 - sum(rate(${histogram}_bucket{le="${seconds}"}[${minutes}m])) / sum(rate(${histogram}_count[${minutes}m]))`

const many = (each: number) => `0+${each}x40`

/** A histogram of which `slow` of 100 observations a minute lie above a bound. */
const histogram = (name: string, bound: number, slow: number, labels = "") => ({
  [`${name}_bucket{${labels}le="${bound}"}`]: many(100 - slow),
  [`${name}_count${labels === "" ? "" : `{${labels.replace(/,$/, "")}}`}`]: many(100),
})

const delivery = "starling_gateway_delivery_seconds"
const requests = "starling_http_request_duration_seconds"
const redis = "starling_redis_round_trip_seconds"
const loop = "starling_event_loop_delay_seconds"

export const alerts: readonly Alert[] = [
  {
    name: "StarlingDown",
    severity: "page",
    expr: 'up{job="starling"} == 0',
    forMinutes: 2,
    summary: "A host of Starling does not answer scrapes",
    meaning:
      "The primary of this host is gone, or nobody reaches its metrics port. Users of other hosts notice nothing; those of this one have resumed elsewhere, or cannot.",
    steps: [
      "Ask `/livez` and `/readyz` on the public port. If they answer, only the metrics port is out of reach: look at `METRICS_HOST` and the network.",
      "Otherwise look whether the process runs, and at the last lines of its log. A start that fails says why in one line.",
      "`npm run doctor` on the host names what is wrong with its configuration, PostgreSQL, Redis and disk.",
    ],
    example: {
      fires: { 'up{job="starling",instance="a:9464"}': "0x40" },
      silent: { 'up{job="starling",instance="a:9464"}': "1x40", 'up{job="other",instance="b:1"}': "0x40" },
      labels: { job: "starling", instance: "a:9464" },
    },
  },
  {
    name: "StarlingWorkersMissing",
    severity: "page",
    expr: "starling_metrics_missing_workers > 0",
    forMinutes: 1,
    summary: "Workers of a host do not answer their primary",
    meaning:
      "A worker does nothing for seconds: its event loop is blocked, or its process is paused. Its sessions receive nothing. After 10 seconds the primary replaces it, so an alert that stays means that it happens again and again.",
    steps: [
      "`npm run operator -- top` shows which worker it is, and what it was doing.",
      "The log says `process is stuck and is killed`, with its place. `starling_processes_stuck_total` counts them.",
      "Look at the memory and the CPU time of the host: a machine that swaps, or a container that is throttled, looks the same.",
    ],
    example: {
      fires: { 'starling_metrics_missing_workers{worker="primary"}': "1x40" },
      silent: { 'starling_metrics_missing_workers{worker="primary"}': "0x40" },
      labels: { worker: "primary" },
    },
  },
  {
    name: "StarlingRequestsFail",
    severity: "page",
    expr: 'sum(rate(starling_http_requests_total{status="5xx"}[5m])) / sum(rate(starling_http_requests_total[5m])) > 0.01',
    forMinutes: 5,
    summary: "More than 1 % of requests end with 5xx",
    meaning:
      "Users see errors. 503 is a refusal because something is away or a bound was reached; 500 is a fault of the program.",
    steps: [
      'Which routes: `topk(5, sum by (route, method) (rate(starling_http_requests_total{status="5xx"}[5m])))`.',
      "`/readyz` of each worker names what does not answer: PostgreSQL, Redis, files, publication.",
      "`starling_http_overload_refusals_total` says whether a worker holds too many requests or downloads: add workers or hosts.",
      "A 500 has a line in the log with its request id and its cause.",
    ],
    example: {
      fires: {
        'starling_http_requests_total{route="/a",method="GET",status="2xx"}': many(98),
        'starling_http_requests_total{route="/a",method="GET",status="5xx"}': many(2),
      },
      silent: {
        'starling_http_requests_total{route="/a",method="GET",status="2xx"}': many(995),
        'starling_http_requests_total{route="/a",method="GET",status="4xx"}': many(400),
        'starling_http_requests_total{route="/a",method="GET",status="5xx"}': many(5),
      },
    },
  },
  {
    name: "StarlingRequestsSlow",
    severity: "page",
    expr: `${above(requests, 0.5)} > 0.05`,
    forMinutes: 10,
    summary: "More than 5 % of requests take longer than half a second",
    meaning:
      "Pages of history load late and posts are confirmed late. Uploads and downloads of large files count, so look whether it is only those.",
    steps: [
      `Which routes: \`topk(5, sum by (route, method) (rate(${requests}_sum[5m])) / sum by (route, method) (rate(${requests}_count[5m])))\`.`,
      "If posts are slow, look at `starling_lanes_commit_duration_seconds`: then it is PostgreSQL's disk or a lock.",
      "If all are slow, look at the event loops, and at waits for connections (StarlingPostgresWaits).",
      "With traces switched on (`TRACES_URL`) a slow request shows where its time went.",
    ],
    example: { fires: histogram(requests, 0.5, 8), silent: histogram(requests, 0.5, 3) },
  },
  {
    name: "StarlingDeliverySlow",
    severity: "page",
    expr: `${above(delivery, 0.25)} > 0.01`,
    forMinutes: 10,
    summary: "More than 1 % of messages reach sockets later than a quarter of a second after they were posted",
    meaning:
      "The one promise of a chat: what is posted is there. From the turn that took a message to the write on sockets lie its commit, its append to delivery logs and its publishing.",
    steps: [
      "Compare with `starling_gateway_lag_seconds`, which is the last part alone, from the append on. If that is late, too, the reading workers are behind: CPU time, or very large audiences.",
      'If only the whole is late, look at `starling_lanes_commit_duration_seconds` (PostgreSQL) and `starling_redis_round_trip_seconds{purpose="log"}` (Redis).',
      "On several hosts look at their clocks with `npm run doctor`: the beginning is by one host's clock, the end by another's.",
      "A take-over after a crash counts with its whole age, once. That passes by itself.",
    ],
    example: { fires: histogram(delivery, 0.25, 3), silent: histogram(delivery, 0.25, 0) },
  },
  {
    name: "StarlingPublicationStuck",
    severity: "page",
    expr: "max by (worker) (starling_outbox_stuck_seconds) > 3",
    forMinutes: 0,
    summary: "A worker has committed or published nothing for 3 seconds although something waits",
    meaning: "Posts to the homes of this worker hang, and it is not ready. Nothing acknowledged is lost.",
    steps: [
      "The log says `worker not ready` with the reason.",
      "`commits have not succeeded`: look for locks (`pg_stat_activity` with `wait_event_type = 'Lock'`) and a full disk in PostgreSQL.",
      "`appends to delivery logs have not succeeded`: look at Redis, its memory (`INFO memory`), its `SLOWLOG`, and `CLIENT LIST` for the connections named `…-log`.",
    ],
    example: {
      fires: { 'starling_outbox_stuck_seconds{worker="web-0"}': "0x20 10+60x20" },
      silent: { 'starling_outbox_stuck_seconds{worker="web-0"}': "1x40" },
      labels: { worker: "web-0" },
    },
  },
  {
    name: "StarlingCommitsLost",
    severity: "page",
    expr: "increase(starling_lanes_lineages_lost_total[1h]) > 0",
    forMinutes: 0,
    summary: "PostgreSQL has lost what it had committed",
    meaning:
      "It was restored from a backup, or failed over to a replica that was behind. Acknowledged messages are gone; clients were told to begin anew.",
    steps: [
      "Follow [PostgreSQL has lost commits](operating.md#postgresql-has-lost-commits).",
      "Find out which server is the primary now, and keep the data of the former one: what is missing may be there.",
    ],
    example: {
      fires: { starling_lanes_lineages_lost_total: "0x10 1x30" },
      silent: { starling_lanes_lineages_lost_total: "1x40" },
    },
  },
  {
    name: "StarlingDeliveryGaps",
    severity: "ticket",
    expr: "increase(starling_gateway_gaps_total[10m]) > 0",
    forMinutes: 0,
    summary: "A worker's delivery log had gaps",
    meaning:
      "Events could not be delivered in order, so the sessions concerned were closed and began anew. Clients reload what they show; messages are not lost.",
    steps: [
      "The log says `gap in the delivery log` with the shard and the number of sessions.",
      "Redis has lost its data, or evicts keys: look at `INFO persistence`, `maxmemory-policy` (must be `noeviction`) and the times of its restarts.",
    ],
    example: {
      fires: { starling_gateway_gaps_total: "0x10 2x30" },
      firesAtMinute: 15,
      silent: { starling_gateway_gaps_total: "2x40" },
    },
  },
  {
    name: "StarlingEventLoopBlocked",
    severity: "ticket",
    // Not a share of the looks: there are fewer while a worker has little to do.
    expr: `sum by (worker) (rate(${loop}_count[5m])) - sum by (worker) (rate(${loop}_bucket{le="0.1"}[5m])) > 0.1`,
    forMinutes: 10,
    summary: "The event loop of a worker is often late by more than a tenth of a second",
    meaning:
      "Everything that this worker does waits: requests, deliveries, heartbeats. It has more to do than a core can, or one piece of work is too large.",
    steps: [
      "`npm run operator -- top` shows how busy each worker is, its hottest homes and its slowest requests.",
      "All workers of the host: it has too few cores for its sessions, or others take them. Add hosts, see [scaling](scaling.md).",
      "One worker: a very large server lives there. `/debug/profile` on the metrics port (with `DEBUG_CAPTURES`) shows what takes the time.",
      "`starling_gc_duration_seconds` shows whether it is garbage collection: then the process has too little memory.",
    ],
    example: {
      fires: histogram(loop, 0.1, 8, 'worker="web-0",'),
      silent: histogram(loop, 0.1, 0, 'worker="web-0",'),
      labels: { worker: "web-0" },
    },
  },
  {
    name: "StarlingPostgresWaits",
    severity: "ticket",
    expr: "sum(rate(starling_postgres_pool_wait_seconds_sum[5m])) > 1",
    forMinutes: 10,
    summary: "Statements wait for connections to PostgreSQL",
    meaning:
      "At any time at least one statement waits because all connections of its worker are busy. Requests are slower by that.",
    steps: [
      "Which statements take the time: `topk(5, sum by (group) (rate(starling_postgres_statement_seconds_total[5m])))`.",
      "If their mean has risen, PostgreSQL is slow: its CPU, its disk, a missing `ANALYZE`, a lock.",
      "If there are only more of them, raise `storage.readConnections` in `cluster.config.ts`, within PostgreSQL's `max_connections` (`npm run doctor` counts), or add hosts.",
    ],
    example: {
      fires: { starling_postgres_pool_wait_seconds_sum: many(120) },
      silent: { starling_postgres_pool_wait_seconds_sum: many(30) },
    },
  },
  {
    name: "StarlingRedisSlow",
    severity: "ticket",
    expr: `1 - sum by (purpose) (rate(${redis}_bucket{le="0.05"}[5m])) / sum by (purpose) (rate(${redis}_count[5m])) > 0.02`,
    forMinutes: 10,
    summary: "Round trips to Redis often take longer than 50 ms",
    meaning:
      "Each request and each delivery takes at least one of them. Workers whose lease is late by 1.5 s stop serving.",
    steps: [
      "`redis-cli --latency` on the host of Redis, then from the host of Starling: is it the network?",
      "`SLOWLOG GET`, and `INFO persistence` (`aof_delayed_fsync`, `latest_fork_usec`): Redis stands still while its disk is slow or it forks.",
      "One purpose alone (`replay`): many sessions read back at once, after a restart. It passes.",
    ],
    example: {
      fires: histogram(redis, 0.05, 5, 'purpose="log",'),
      silent: histogram(redis, 0.05, 1, 'purpose="log",'),
      labels: { purpose: "log" },
    },
  },
  {
    name: "StarlingJobsOld",
    severity: "ticket",
    expr: "max by (queue) (starling_jobs_oldest_waiting_seconds) > 300",
    forMinutes: 5,
    summary: "Jobs wait for more than five minutes",
    meaning:
      "Mentions, notifications, mails, exports and thumbnails come late. Pictures are refused with 503 when the queue `pictures` waits. When only `pushes` waits, push services do not answer (`starling_pushes_total`, `push refused` in the log): nothing but pushes is lost.",
    steps: [
      'Is there a job worker? `starling_processes{role="job"}` and the log.',
      "Which jobs fail and are tried again: `sum by (job, outcome) (rate(starling_jobs_total[15m]))`, and `GET /admin/now`.",
      "If they succeed, but there are too many, raise `processes.job` in `cluster.config.ts`.",
    ],
    example: {
      fires: { 'starling_jobs_oldest_waiting_seconds{queue="jobs",worker="job-0"}': "0+60x40" },
      silent: { 'starling_jobs_oldest_waiting_seconds{queue="jobs",worker="job-0"}': "200x40" },
      labels: { queue: "jobs" },
    },
  },
  {
    name: "StarlingDiskFilling",
    severity: "ticket",
    expr: "starling_data_free_bytes / starling_data_size_bytes < 0.1",
    forMinutes: 10,
    summary: "Less than 10 % of the disk of DATA_DIR is free",
    meaning: "When it is full, the embedded PostgreSQL and Redis stop taking writes, uploads fail, and log files end.",
    steps: [
      "`du -x -d 2 DATA_DIR` shows what grew: `postgres`, `redis`, `files` or `logs`.",
      "Enlarge the disk, or move files to a bucket (`FILES_URL`).",
      "Log files have a bound (`logs` in `cluster.config.ts`).",
    ],
    example: {
      fires: {
        'starling_data_free_bytes{worker="primary"}': "5x40",
        'starling_data_size_bytes{worker="primary"}': "100x40",
      },
      silent: {
        'starling_data_free_bytes{worker="primary"}': "15x40",
        'starling_data_size_bytes{worker="primary"}': "100x40",
      },
      labels: { worker: "primary" },
    },
  },
  {
    name: "StarlingReplicaBehind",
    severity: "ticket",
    expr: "max(starling_postgres_replica_lag_seconds) > 30",
    forMinutes: 10,
    summary: "The replica of PostgreSQL is half a minute behind, or away",
    meaning:
      "Users notice nothing: searches and old messages are read from the primary again, which has the more to do. `1e9` means that a worker does not know how far the replica is.",
    steps: [
      "`pg_stat_replication` on the primary: no row means that the replica is not connected. Its own log says why.",
      "A long statement on the replica, or `max_standby_streaming_delay`, holds it up: `pg_stat_activity` there.",
      "If it cannot follow any more, make it anew with `pg_basebackup`, or leave `DATABASE_REPLICA_URL` out until it can.",
    ],
    example: {
      fires: {
        'starling_postgres_replica_lag_seconds{worker="web-0"}': "0x5 1000000000x35",
        'starling_postgres_replica_lag_seconds{worker="web-1"}': "0x40",
      },
      silent: {
        'starling_postgres_replica_lag_seconds{worker="web-0"}': "0.4x40",
        'starling_postgres_replica_lag_seconds{worker="web-1"}': "0.4x22 45x8 0.4x10",
      },
    },
  },
  {
    name: "StarlingDescriptorsLow",
    severity: "ticket",
    expr: "starling_process_open_descriptors / starling_process_descriptor_limit > 0.8",
    forMinutes: 5,
    summary: "A process has used more than 80 % of its file descriptors",
    meaning:
      "Each socket takes one. At the limit new clients are not accepted, and connections to PostgreSQL and Redis cannot be made again.",
    steps: [
      "Raise the limit (`LimitNOFILE` of the systemd unit, `ulimit -n`, `nofile` of the container) to twice the sessions that a worker should hold, and restart with `kill -USR2`.",
      "If `starling_gateway_connections` does not explain the number, look at `/proc/PID/fd`: something leaks, which is a fault to report.",
    ],
    example: {
      fires: {
        'starling_process_open_descriptors{worker="web-0"}': "900x40",
        'starling_process_descriptor_limit{worker="web-0"}': "1024x40",
      },
      silent: {
        'starling_process_open_descriptors{worker="web-0"}': "700x40",
        'starling_process_descriptor_limit{worker="web-0"}': "1024x40",
      },
      labels: { worker: "web-0" },
    },
  },
  {
    name: "StarlingFilesTroubled",
    severity: "page",
    expr: "max(starling_file_store_troubled) > 0",
    forMinutes: 5,
    summary: "The file store does not do what it is asked for",
    meaning:
      "Attachments, avatars and emoji are not served or taken. Workers stay ready, because everything else works, so nothing else tells of it.",
    steps: [
      "The log says `the file store does not do what it is asked for` with the answer of the store.",
      '`starling_file_store_requests_total{outcome="refused"}` rises: keys or rights of the bucket. `failed`: the network, or the store itself.',
    ],
    example: {
      fires: { 'starling_file_store_troubled{worker="web-0"}': "0x10 1x30" },
      silent: { 'starling_file_store_troubled{worker="web-0"}': "0x40" },
    },
  },
]
