/** The dashboards, as short as they can be said. `deploy/grafana/*.json` is written from here. */
import { above } from "./alerts.ts"

type Unit = "s" | "reqps" | "ops" | "short" | "bytes" | "percentunit" | "Bps"

interface Panel {
  readonly title: string
  readonly unit: Unit
  /** Query and legend. */
  readonly queries: readonly (readonly [expr: string, legend: string])[]
  readonly about?: string
}

export interface Dashboard {
  readonly file: string
  readonly title: string
  readonly about: string
  readonly panels: readonly Panel[]
}

const span = "$__rate_interval"
const rate = (metric: string) => `rate(${metric}[${span}])`
const sumOf = (metric: string, by = ""): string => `sum${by === "" ? "" : ` by (${by})`} (${rate(metric)})`
const quantile = (share: number, histogram: string, by = "") =>
  `histogram_quantile(${share}, sum by (le${by === "" ? "" : `, ${by}`}) (${rate(`${histogram}_bucket`)}))`
const mean = (metric: string, by = "") => `${sumOf(`${metric}_sum`, by)} / ${sumOf(`${metric}_count`, by)}`

/** Half of all, and all but one in a hundred. */
const usualAndWorst = (histogram: string): Panel["queries"] => [
  [quantile(0.5, histogram), "p50"],
  [quantile(0.99, histogram), "p99"],
]

const serviceLevel: Dashboard = {
  file: "service-level",
  title: "Starling: service level",
  about: "What users notice. Begin here.",
  panels: [
    {
      title: "From post to socket",
      unit: "s",
      about: "From the turn that took a message until it was written to sockets",
      queries: usualAndWorst("starling_gateway_delivery_seconds"),
    },
    {
      title: "Messages later than 0.25 s",
      unit: "percentunit",
      about: "StarlingDeliverySlow fires at 1 %",
      queries: [[above("starling_gateway_delivery_seconds", 0.25), "late"]],
    },
    {
      title: "Requests that fail",
      unit: "percentunit",
      about: "Answers with 5xx. StarlingRequestsFail fires at 1 %",
      queries: [
        [
          `sum(${rate('starling_http_requests_total{status="5xx"}')}) / ${sumOf("starling_http_requests_total")}`,
          "5xx",
        ],
      ],
    },
    {
      title: "Requests by status",
      unit: "reqps",
      queries: [[sumOf("starling_http_requests_total", "status"), "{{status}}"]],
    },
    {
      title: "Duration of requests",
      unit: "s",
      queries: usualAndWorst("starling_http_request_duration_seconds"),
    },
    {
      title: "Slowest routes",
      unit: "s",
      queries: [
        [`topk(8, ${mean("starling_http_request_duration_seconds", "route, method")})`, "{{method}} {{route}}"],
      ],
    },
    { title: "Sessions", unit: "short", queries: [["sum by (state) (starling_gateway_sessions)", "{{state}}"]] },
    {
      title: "Messages and deliveries",
      unit: "ops",
      queries: [
        [`sum(${rate('starling_homes_turns_total{command="createMessage"}')})`, "messages"],
        [sumOf("starling_gateway_deliveries_total"), "deliveries"],
      ],
    },
    {
      title: "Sign-ins",
      unit: "ops",
      queries: [[sumOf("starling_sign_ins_total", "way, outcome"), "{{way}} {{outcome}}"]],
    },
    {
      title: "Refused by limits, or for overload",
      unit: "reqps",
      queries: [
        [sumOf("starling_http_refused_total", "scope"), "limit: {{scope}}"],
        [sumOf("starling_http_overload_refusals_total", "held"), "overload: {{held}}"],
      ],
    },
  ],
}

const gateway: Dashboard = {
  file: "gateway",
  title: "Starling: gateway",
  about: "Sockets, sessions, and how events get out.",
  panels: [
    {
      title: "Connections by worker",
      unit: "short",
      queries: [["starling_gateway_connections", "{{worker}}"]],
    },
    {
      title: "From append to socket",
      unit: "s",
      queries: usualAndWorst("starling_gateway_lag_seconds"),
    },
    {
      title: "Round trip to clients",
      unit: "s",
      queries: usualAndWorst("starling_gateway_round_trip_seconds"),
    },
    {
      title: "Events written to sockets",
      unit: "ops",
      queries: [
        [sumOf("starling_gateway_deliveries_total"), "events"],
        [sumOf("starling_gateway_publishes_total"), "publishes"],
      ],
    },
    { title: "Bytes written to sockets", unit: "Bps", queries: [[sumOf("starling_gateway_sent_bytes_total"), "sent"]] },
    {
      title: "Frames from clients",
      unit: "ops",
      queries: [[sumOf("starling_gateway_frames_in_total", "op"), "op {{op}}"]],
    },
    {
      title: "Beginnings of sessions",
      unit: "ops",
      queries: [
        [sumOf("starling_gateway_identifies_total"), "identify"],
        [sumOf("starling_gateway_resumes_total", "outcome"), "resume: {{outcome}}"],
      ],
    },
    { title: "Closes", unit: "ops", queries: [[sumOf("starling_gateway_closes_total", "code"), "{{code}}"]] },
    {
      title: "Sessions that fell behind, and gaps",
      unit: "ops",
      queries: [
        [sumOf("starling_gateway_fallen_to_reading_total"), "slow sockets"],
        [sumOf("starling_gateway_gaps_total"), "gaps"],
      ],
    },
    {
      title: "Duration of a slice of publishing",
      unit: "s",
      queries: usualAndWorst("starling_gateway_publish_duration_seconds"),
    },
  ],
}

const storage: Dashboard = {
  file: "storage",
  title: "Starling: storage",
  about: "PostgreSQL, Redis, files, jobs.",
  panels: [
    { title: "Commits", unit: "s", queries: usualAndWorst("starling_lanes_commit_duration_seconds") },
    {
      title: "Turns in one commit",
      unit: "short",
      queries: [[mean("starling_lanes_batch_turns"), "mean"]],
    },
    {
      title: "Time in statements, by group",
      unit: "s",
      about: "Seconds per second: how many connections a group keeps busy",
      queries: [[`topk(10, ${sumOf("starling_postgres_statement_seconds_total", "group")})`, "{{group}}"]],
    },
    {
      title: "Mean of a statement, by group",
      unit: "s",
      queries: [
        [
          `topk(10, ${sumOf("starling_postgres_statement_seconds_total", "group")} / ${sumOf("starling_postgres_statements_total", "group")})`,
          "{{group}}",
        ],
      ],
    },
    {
      title: "Waits for a connection",
      unit: "s",
      about: "Seconds per second. StarlingPostgresWaits fires at 1",
      queries: [[sumOf("starling_postgres_pool_wait_seconds_sum"), "waited"]],
    },
    {
      title: "Errors",
      unit: "ops",
      queries: [
        [sumOf("starling_postgres_errors_total", "pool"), "PostgreSQL: {{pool}}"],
        [sumOf("starling_redis_errors_total", "connection"), "Redis: {{connection}}"],
      ],
    },
    {
      title: "Round trips to Redis, p99",
      unit: "s",
      queries: [[quantile(0.99, "starling_redis_round_trip_seconds", "purpose"), "{{purpose}}"]],
    },
    {
      title: "Writes to Redis",
      unit: "ops",
      queries: [[sumOf("starling_redis_writes_total", "purpose"), "{{purpose}}"]],
    },
    {
      title: "Outbox",
      unit: "short",
      queries: [["sum(starling_outbox_unconfirmed_rows)", "not confirmed"]],
    },
    {
      title: "Nothing committed or published for",
      unit: "s",
      queries: [["starling_outbox_stuck_seconds", "{{worker}}"]],
    },
    {
      title: "Oldest waiting job",
      unit: "s",
      queries: [["max by (queue) (starling_jobs_oldest_waiting_seconds)", "{{queue}}"]],
    },
    {
      title: "Jobs",
      unit: "ops",
      queries: [[sumOf("starling_jobs_total", "outcome"), "{{outcome}}"]],
    },
    {
      title: "Object store",
      unit: "ops",
      queries: [[sumOf("starling_file_store_requests_total", "outcome"), "{{outcome}}"]],
    },
    { title: "Search index behind", unit: "s", queries: [["max(starling_search_behind_seconds)", "behind"]] },
  ],
}

const hosts: Dashboard = {
  file: "hosts",
  title: "Starling: hosts",
  about: "Processes, memory, disks, and how hosts share the work.",
  panels: [
    { title: "Processes", unit: "short", queries: [["starling_processes", "{{instance}} {{role}}"]] },
    {
      title: "CPU",
      unit: "short",
      about: "Cores in use, all processes of a host together",
      queries: [[sumOf("starling_process_cpu_seconds_total", "instance"), "{{instance}}"]],
    },
    {
      title: "Event loop late, p99",
      unit: "s",
      queries: [[quantile(0.99, "starling_event_loop_delay_seconds", "instance, worker"), "{{instance}} {{worker}}"]],
    },
    {
      title: "Garbage collection",
      unit: "percentunit",
      about: "Share of the time of one core",
      queries: [[sumOf("starling_gc_duration_seconds_sum", "instance, kind"), "{{instance}} {{kind}}"]],
    },
    {
      title: "Resident memory",
      unit: "bytes",
      queries: [["starling_process_resident_memory_bytes", "{{instance}} {{worker}}"]],
    },
    {
      title: "JavaScript heap in use",
      unit: "percentunit",
      queries: [["starling_process_heap_used_bytes / starling_process_heap_limit_bytes", "{{instance}} {{worker}}"]],
    },
    {
      title: "File descriptors in use",
      unit: "percentunit",
      queries: [["starling_process_open_descriptors / starling_process_descriptor_limit", "{{instance}} {{worker}}"]],
    },
    {
      title: "Disk of DATA_DIR that is free",
      unit: "percentunit",
      queries: [["starling_data_free_bytes / starling_data_size_bytes", "{{instance}}"]],
    },
    { title: "Shards owned", unit: "short", queries: [["starling_shards_owned", "{{instance}} {{worker}}"]] },
    {
      title: "Shards that move",
      unit: "ops",
      queries: [
        [sumOf("starling_shards_take_overs_total"), "taken over"],
        [sumOf("starling_shards_hand_overs_total", "direction"), "handed over: {{direction}}"],
      ],
    },
    {
      title: "Asks between workers",
      unit: "ops",
      queries: [
        [sumOf("starling_bus_asks_total", "outcome"), "{{outcome}}"],
        [sumOf("starling_bus_messages_total", "road"), "messages by {{road}}"],
      ],
    },
    {
      title: "Workers that were killed or are missing",
      unit: "short",
      queries: [
        ["sum(increase(starling_processes_stuck_total[1h]))", "killed within an hour"],
        ["sum(starling_metrics_missing_workers)", "missing"],
      ],
    },
  ],
}

export const dashboards: readonly Dashboard[] = [serviceLevel, gateway, storage, hosts]

const source = { type: "prometheus", uid: "${datasource}" }
const columns = 2
const size = { w: 24 / columns, h: 8 }

/** The file that Grafana reads, from version 10 on. */
export const dashboardFile = ({ file, title, about, panels }: Dashboard): string =>
  `${JSON.stringify(
    {
      uid: `starling-${file}`,
      title,
      description: about,
      tags: ["starling"],
      schemaVersion: 39,
      editable: true,
      refresh: "30s",
      time: { from: "now-3h", to: "now" },
      templating: { list: [{ name: "datasource", label: "Prometheus", type: "datasource", query: "prometheus" }] },
      links: [{ title: "Starling", type: "dashboards", tags: ["starling"], keepTime: true }],
      panels: panels.map((panel, i) => ({
        id: i + 1,
        type: "timeseries",
        title: panel.title,
        ...(panel.about && { description: panel.about }),
        datasource: source,
        gridPos: { ...size, x: (i % columns) * size.w, y: Math.floor(i / columns) * size.h },
        fieldConfig: {
          defaults: { unit: panel.unit, min: 0, custom: { fillOpacity: 8, showPoints: "never" } },
          overrides: [],
        },
        options: { legend: { displayMode: "list", placement: "bottom" }, tooltip: { mode: "multi", sort: "desc" } },
        targets: panel.queries.map(([expr, legendFormat], at) => ({
          refId: String.fromCharCode(65 + at),
          datasource: source,
          expr,
          legendFormat,
        })),
      })),
    },
    null,
    1,
  )}\n`
