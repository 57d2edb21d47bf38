import { useState } from "preact/hooks"
import { offerFile } from "../../kit/api.ts"
import { ask, Dialog } from "../../kit/dialog.tsx"
import { Select, TextField, type Choices } from "../../kit/forms.tsx"
import { milliseconds, number, percent, short } from "../../kit/format.ts"
import { Plot } from "../../kit/plot.tsx"
import { useResource } from "../../kit/resource.ts"
import { Badge, Empty, Loaded } from "../../kit/states.tsx"
import { Table } from "../../kit/table.tsx"
import { count, t } from "../../kit/text.ts"
import { attempt, say } from "../../kit/toasts.tsx"
import { call, download } from "../client.ts"
import { Header } from "../header.tsx"
import type { EndpointStat } from "../wire.ts"

const spans: Choices<string> = [
  ["1", t("The last hour")],
  ["24", t("The last day")],
  ["168", t("The last week")],
  ["720", t("The last 30 days")],
]

type Order = "count" | "p95_ms" | "error_rate" | "avg_queries"
const orders: Choices<Order> = [
  ["count", t("most asked for")],
  ["p95_ms", t("slowest")],
  ["error_rate", t("most errors")],
  ["avg_queries", t("most queries")],
]

export function Telemetry() {
  const [hours, setHours] = useState("24")
  const [filter, setFilter] = useState("")
  const [order, setOrder] = useState<Order>("count")
  const [source, setSource] = useState("")
  const [chosen, choose] = useState<EndpointStat>()
  const stats = useResource(
    signal => call("GET /telemetry/stats", { query: { hours: Number(hours), ...(source && { source }) } }, { signal }),
    [hours, source],
    { everyMs: 60_000 },
  )
  const save = (format: string) =>
    attempt(async () => {
      const file = await download("GET /telemetry/export", { hours, format })
      offerFile(file.name, file.content)
    })
  const reset = () =>
    ask({
      title: t("Delete all timings?"),
      will: (
        <p>
          {t(
            "Every timing of the last 30 days goes, of all endpoints: {n} requests in what is shown. It cannot be undone; export them first if they matter.",
            {
              n: (stats.data?.stats ?? []).reduce((sum, { count }) => sum + count, 0),
            },
          )}
        </p>
      ),
      does: t("Delete the timings"),
      isDangerous: true,
      work: async () => {
        const { deleted_count } = await call("POST /telemetry/reset")
        say(count(deleted_count, "{n} timing is deleted.", "{n} timings are deleted."))
        stats.reload()
      },
    })
  return (
    <>
      <Header title={t("Telemetry")} about={t("How long requests took, as the server and applications timed them.")}>
        {["csv", "json", "txt"].map(format => (
          <button key={format} type="button" onClick={() => void save(format)}>
            {t("Export {format}", { format: format.toUpperCase() })}
          </button>
        ))}
        <button type="button" class="danger" onClick={reset}>
          {t("Delete all …")}
        </button>
      </Header>
      <div class="bar">
        <Select label={t("Time")} value={hours} choices={spans} onValue={setHours} />
        <Select
          label={t("Timed by")}
          value={source}
          choices={[
            ["", t("everybody")],
            ["server", t("the server")],
            ["client", t("applications")],
          ]}
          onValue={setSource}
        />
        <Select label={t("First")} value={order} choices={orders} onValue={setOrder} />
        <TextField label={t("Endpoint")} type="search" value={filter} onValue={setFilter} />
      </div>
      {chosen && <History of={chosen} hours={Number(hours)} onClose={() => choose(undefined)} />}
      <Loaded of={stats}>
        {({ stats }) => (
          <Table<EndpointStat>
            caption={t("Endpoints")}
            rows={stats
              .filter(({ endpoint }) => endpoint.toLowerCase().includes(filter.toLowerCase()))
              .toSorted((one, other) => other[order] - one[order])}
            keyOf={({ method, endpoint }) => `${method} ${endpoint}`}
            onOpen={choose}
            empty={<Empty title={t("Nothing was timed in this time.")} />}
            columns={[
              {
                title: t("Endpoint"),

                cell: ({ method, endpoint }) => (
                  <code>
                    <b>{method}</b> {endpoint}
                  </code>
                ),
              },
              { title: t("Requests"), rem: 6.5, kind: "number", from: "medium", cell: stat => short(stat.count) },
              { title: t("Average"), rem: 6, kind: "number", from: "large", cell: stat => milliseconds(stat.avg_ms) },
              { title: t("p95"), rem: 6, kind: "number", cell: stat => milliseconds(stat.p95_ms) },
              {
                title: t("p99"),
                rem: 6,
                kind: "number",
                from: "medium",
                cell: stat => (stat.p99_ms === null ? "–" : milliseconds(stat.p99_ms)),
              },
              {
                title: t("Queries"),
                rem: 8.5,
                kind: "number",
                from: "large",
                cell: stat => `${number(stat.avg_queries)} · ${milliseconds(stat.avg_query_time_ms)}`,
              },
              {
                title: t("Errors"),
                rem: 6.5,
                kind: "number",
                cell: stat =>
                  stat.error_rate >= 1 ? (
                    <Badge tone="bad">{percent(stat.error_rate)}</Badge>
                  ) : (
                    percent(stat.error_rate)
                  ),
              },
            ]}
          />
        )}
      </Loaded>
    </>
  )
}

/** About a hundred points, whatever the time is. */
const bucketMinutes = (hours: number) => Math.max(5, Math.round((hours * 60) / 120))

function History({
  of: { endpoint, method },
  hours,
  onClose,
}: {
  of: EndpointStat
  hours: number
  onClose: () => void
}) {
  const history = useResource(
    signal =>
      call(
        "GET /telemetry/history",
        { query: { endpoint, method, hours, bucket_minutes: bucketMinutes(hours) } },
        { signal },
      ),
    [endpoint, method, hours],
  )
  return (
    <Dialog title={`${method} ${endpoint}`} onClose={onClose} wide>
      <Loaded of={history}>
        {({ history }) =>
          history.length === 0 ? (
            <Empty title={t("Nothing was timed in this time.")} />
          ) : (
            <>
              <Plot
                says={t("Average time: at last {last}, at most {most}.", {
                  last: milliseconds(history.at(-1)!.avg_ms),
                  most: milliseconds(Math.max(...history.map(({ avg_ms }) => avg_ms))),
                })}
                times={history.map(({ timestamp }) => timestamp)}
                lines={[{ label: t("Average"), color: "blue", values: history.map(({ avg_ms }) => avg_ms) }]}
                format={milliseconds}
                isLong={hours > 24}
              />
              <Plot
                says={t("Requests: {n}, errors: {errors}.", {
                  n: history.reduce((sum, { count }) => sum + count, 0),
                  errors: history.reduce((sum, { error_count }) => sum + error_count, 0),
                })}
                times={history.map(({ timestamp }) => timestamp)}
                lines={[
                  { label: t("Requests"), color: "green", values: history.map(({ count }) => count) },
                  { label: t("Errors"), color: "red", values: history.map(({ error_count }) => error_count) },
                ]}
                format={short}
                isLong={hours > 24}
              />
            </>
          )
        }
      </Loaded>
      <p class="buttons">
        <button type="button" onClick={onClose}>
          {t("Close")}
        </button>
      </p>
    </Dialog>
  )
}
