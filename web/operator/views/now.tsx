import { bytes, clockTime, duration, milliseconds, number, percent, short } from "../../kit/format.ts"
import { useKeys } from "../../kit/keys.ts"
import { Plot, type Line } from "../../kit/plot.tsx"
import { useResource } from "../../kit/resource.ts"
import { Badge, Facts, Loaded, type Tone } from "../../kit/states.tsx"
import { t } from "../../kit/text.ts"
import { call } from "../client.ts"
import { Header } from "../header.tsx"
import { loadNow, sessionsIn } from "../live.ts"
import { problemsOf, type Problem } from "../problems.ts"
import type { Dashboard, Now as Live, Process, Sample } from "../wire.ts"

const everyMs = 10_000
/** The counts of accounts cost more than the figures. */
const countsEveryMs = 60_000

export function Now() {
  const live = useResource(loadNow, [], { everyMs })
  const dashboard = useResource(signal => call("GET /dashboard", {}, { signal }), [], { everyMs: countsEveryMs })
  useKeys(t("Now"), [{ key: "r", does: t("Look again"), run: live.reload }])
  return (
    <>
      <Header
        title={t("Now")}
        about={
          live.data && (
            <>
              {dashboard.data && <>{t("Version {version}", { version: dashboard.data.server_version })} · </>}
              {t("as of {time}", { time: clockTime(live.data.at) })}
            </>
          )
        }
      />
      <Loaded of={live}>{data => <Shown now={data} dashboard={dashboard.data} />}</Loaded>
    </>
  )
}

interface ShownOptions {
  readonly now: Live
  readonly dashboard: Dashboard | undefined
}

function Shown({ now, dashboard }: ShownOptions) {
  const problems = problemsOf(now)
  return (
    <>
      <Problems of={problems} />
      <Tiles now={now} dashboard={dashboard} problems={problems} />
      <Plots now={now} />
      <Stores now={now} problems={problems} />
      <Processes of={now.processes} at={now.at} />
    </>
  )
}

function Problems({ of }: { of: readonly Problem[] }) {
  return (
    <section aria-labelledby="wrong" aria-live="polite">
      <h2 id="wrong" class="unseen">
        {t("What is wrong")}
      </h2>
      {of.length === 0 ? (
        <p class="notice good">{t("Nothing is wrong.")}</p>
      ) : (
        <ul class="problems">
          {of.map(({ what, todo, tone }) => (
            <li key={what} class={`notice ${tone}`}>
              <p>
                <strong>{what}</strong>
              </p>
              <p>{todo}</p>
            </li>
          ))}
        </ul>
      )}
    </section>
  )
}

const ofAccounts = [
  [t("Accounts"), ({ total_users }: Dashboard) => total_users, t("in all")],
  [t("Active"), ({ active_users }: Dashboard) => active_users, t("signed in within a day")],
  [t("In deletion"), ({ scheduled_deletions }: Dashboard) => scheduled_deletions, t("accounts")],
] as const

/** Where the database does not answer, the server says 0 of everything. */
const counted = (dashboard: Dashboard | undefined, of: (dashboard: Dashboard) => number) =>
  dashboard?.db_status === "healthy" ? short(of(dashboard)) : "–"

function Tiles({ now, dashboard, problems }: ShownOptions & { problems: readonly Problem[] }) {
  const toneOf = (figure: Problem["about"]): Tone | undefined => problems.find(({ about }) => about === figure)?.tone
  const latest = now.samples.at(-1)
  const perSecond = (of: (sample: Sample) => number) => (latest ? short(of(latest) / now.every_seconds) : "–")
  const { oldest_seconds, waiting, failed } = now.jobs
  const tiles: readonly (readonly [name: string, value: string, more: string, tone?: Tone | undefined])[] = [
    [t("Sessions"), short(sessionsIn(now)), t("at the gateway"), toneOf("processes")],
    [t("Messages"), perSecond(({ messages }) => messages), t("a second")],
    [t("Deliveries"), perSecond(({ deliveries }) => deliveries), t("a second")],
    [t("Lag, p99"), or(latest?.lag_p99_ms ?? null, milliseconds), t("from the commit to the sockets"), toneOf("lag")],
    [t("Errors"), perSecond(({ errors }) => errors), t("a second"), toneOf("errors")],
    [
      t("Oldest job"),
      oldest_seconds === null ? "–" : duration(oldest_seconds),
      waiting === null || failed === null ? t("not known") : t("{waiting} wait, {failed} failed", { waiting, failed }),
      toneOf("jobs"),
    ],
    ...ofAccounts.map(([name, of, more]) => [name, counted(dashboard, of), more] as const),
  ]
  return (
    <dl class="tiles">
      {tiles.map(([name, value, more, tone]) => (
        <div key={name} class={tone ? `tile ${tone}` : "tile"}>
          <dt>{name}</dt>
          <dd>
            {value}
            <small>{more}</small>
          </dd>
        </div>
      ))}
    </dl>
  )
}

interface Figure {
  readonly title: string
  readonly format: (value: number) => string
  readonly lines: readonly (Omit<Line, "values"> & {
    readonly of: (sample: Sample, seconds: number) => number | null
  })[]
}

const figures: readonly Figure[] = [
  {
    title: t("Sessions"),
    format: short,
    lines: [{ label: t("Sessions"), color: "blue", of: ({ sessions }) => sessions }],
  },
  {
    title: t("Messages a second"),
    format: short,
    lines: [{ label: t("Messages"), color: "green", of: ({ messages }, seconds) => messages / seconds }],
  },
  {
    title: t("Deliveries a second"),
    format: short,
    lines: [{ label: t("Deliveries"), color: "violet", of: ({ deliveries }, seconds) => deliveries / seconds }],
  },
  {
    title: t("Lag from the commit to the sockets"),
    format: milliseconds,
    lines: [
      { label: t("p99"), color: "orange", of: ({ lag_p99_ms }) => lag_p99_ms },
      { label: t("Half of them"), color: "blue", of: ({ lag_p50_ms }) => lag_p50_ms },
    ],
  },
  {
    title: t("Requests a second"),
    format: short,
    lines: [{ label: t("Requests"), color: "blue", of: ({ requests }, seconds) => requests / seconds }],
  },
  {
    title: t("Errors a second"),
    format: short,
    lines: [{ label: t("Errors"), color: "red", of: ({ errors }, seconds) => errors / seconds }],
  },
  {
    title: t("Round trips"),
    format: milliseconds,
    lines: [
      { label: t("PostgreSQL"), color: "violet", of: ({ postgres_ms }) => postgres_ms },
      { label: t("Redis"), color: "orange", of: ({ redis_ms }) => redis_ms },
    ],
  },
  {
    title: t("Disk of the fullest host"),
    format: percent,
    lines: [{ label: t("Full"), color: "orange", of: ({ disk_percent }) => disk_percent }],
  },
  {
    title: t("Oldest job"),
    format: duration,
    lines: [{ label: t("Waits"), color: "green", of: ({ oldest_job_seconds }) => oldest_job_seconds ?? 0 }],
  },
]

function Plots({ now: { samples, every_seconds } }: { now: Live }) {
  return (
    <div class="plots">
      {figures.map(({ title, format, lines }) => {
        const shown = lines.map(({ label, color, of }) => ({
          label,
          color,
          values: samples.map(sample => of(sample, every_seconds)),
        }))
        return (
          <section key={title} class="card">
            <h2>{title}</h2>
            <Plot
              says={shown.map(({ label, values }) => wordsFor(label, values, format)).join(" ")}
              times={samples.map(({ at }) => at)}
              lines={shown}
              format={format}
            />
          </section>
        )
      })}
    </div>
  )
}

function wordsFor(label: string, values: readonly (number | null)[], format: (value: number) => string): string {
  const known = values.filter(value => value !== null)
  const last = known.at(-1)
  if (last === undefined) return t("{label}: not known.", { label })
  return t("{label}: {last} now, between {least} and {most} in the last hour.", {
    label,
    last: format(last),
    least: format(Math.min(...known)),
    most: format(Math.max(...known)),
  })
}

const or = (value: number | null, format: (value: number) => string) => (value === null ? "–" : format(value))

function Stores({ now: { postgres, redis, disk, jobs }, problems }: { now: Live; problems: readonly Problem[] }) {
  const state = (about: Problem["about"]) => {
    const tone = problems.find(problem => problem.about === about)?.tone
    return (
      <Badge tone={tone ?? "good"}>
        {tone === undefined ? t("well") : tone === "bad" ? t("wrong") : t("look at it")}
      </Badge>
    )
  }
  return (
    <div class="columns">
      <section class="card" aria-labelledby="postgres">
        <h2 id="postgres">PostgreSQL {state("postgres")}</h2>
        <Facts
          of={[
            [t("Round trip"), or(postgres.latency_ms, milliseconds)],
            [t("Connections"), `${or(postgres.connections, number)} / ${or(postgres.max_connections, number)}`],
            [t("Size"), or(postgres.size_bytes, bytes)],
          ]}
        />
      </section>
      <section class="card" aria-labelledby="redis">
        <h2 id="redis">Redis {state("redis")}</h2>
        <Facts
          of={[
            [t("Round trip"), or(redis.latency_ms, milliseconds)],
            [
              t("Memory"),
              `${or(redis.memory_bytes, bytes)}${redis.max_memory_bytes ? ` / ${bytes(redis.max_memory_bytes)}` : ""}`,
            ],
          ]}
        />
      </section>
      <section class="card" aria-labelledby="disk">
        <h2 id="disk">
          {t("Disk of the host that answers")} {state("disk")}
        </h2>
        <Facts
          of={[
            [t("Full"), or(disk.percent, percent)],
            [t("Left"), `${or(disk.free_bytes, bytes)} / ${or(disk.total_bytes, bytes)}`],
          ]}
        />
      </section>
      <section class="card" aria-labelledby="jobs">
        <h2 id="jobs">
          {t("Jobs")} {state("jobs")}
        </h2>
        <Facts
          of={[
            [t("Waiting"), jobs.waiting === null ? t("not known") : number(jobs.waiting)],
            [t("Running"), jobs.active === null ? t("not known") : number(jobs.active)],
            [t("Failed"), jobs.failed === null ? t("not known") : number(jobs.failed)],
          ]}
        />
      </section>
    </div>
  )
}

function Processes({ of, at }: { of: readonly Process[]; at: number }) {
  const roles = { web: t("web"), job: t("jobs") }
  return (
    <section class="card" aria-labelledby="processes">
      <h2 id="processes">{t("Processes")}</h2>
      <div class="scroll" tabIndex={0} role="group" aria-labelledby="processes">
        <table>
          <thead>
            <tr>
              {[t("Process"), t("Host"), t("Kind")].map(title => (
                <th key={title} scope="col">
                  {title}
                </th>
              ))}
              {[t("Sessions"), t("Memory"), t("CPU"), t("Event loop, p99"), t("Runs for"), t("Last heard of")].map(
                title => (
                  <th key={title} scope="col" class="number">
                    {title}
                  </th>
                ),
              )}
            </tr>
          </thead>
          <tbody>
            {of.map(process => (
              <tr key={`${process.host} ${process.id}`}>
                <td>
                  <code>{process.id}</code>
                </td>
                <td>{process.host}</td>
                <td>{roles[process.role]}</td>
                <td class="number">{process.role === "web" ? number(process.sessions) : "–"}</td>
                <td class="number">{bytes(process.memory_mb * 1_000_000)}</td>
                <td class="number">{percent(process.cpu_percent)}</td>
                <td class="number">{milliseconds(process.loop_p99_ms)}</td>
                <td class="number">{duration(process.uptime_seconds)}</td>
                <td class="number">{t("{time} ago", { time: duration(at - process.seen_at) })}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  )
}
