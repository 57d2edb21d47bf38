/**
 * Requests at a constant rate: half of them ask who one is, a third read a page of messages, the rest
 * post. No sockets; chat.ts has those.
 *
 *   k6 run load-tests/rest.ts                                  where k6 is
 *   npm run scenario -- load-tests/rest.ts                     without it
 *   … -e VARIANT=stress -e TARGET=https://chat.example -e TOKENS=/path/to/tokens -e RATE=200
 */
import { check } from "k6"
import exec from "k6/execution"
import { Counter } from "k6/metrics"
import type { Options } from "k6/options"
import { disperse, gather, turnOf, type People } from "./lib/people.ts"
import { arrivals, limit, variantName } from "./lib/profile.ts"
import { summarize, trendStats, type SummaryData } from "./lib/summary.ts"
import { ask, numberOf, type Answer } from "./lib/target.ts"

const isSmoke = variantName === "smoke"
const rate = numberOf("RATE", isSmoke ? 20 : 200)
const users = Math.ceil(numberOf("USERS", isSmoke ? 10 : 100))
const servers = Math.ceil(numberOf("SERVERS", Math.max(1, users / 20)))
const p99Ms = numberOf("P99_MS", 1_000)

const limited = new Counter("refused_429")

export const options: Options = {
  scenarios: { requests: arrivals("request", rate, 2, { gracefulStop: "30s" }) },
  thresholds: {
    checks: limit("rate>0.999"),
    "http_req_duration{name:me}": limit(`p(99)<${p99Ms}`),
    "http_req_duration{name:page}": limit(`p(99)<${p99Ms}`),
    "http_req_duration{name:post}": limit(`p(99)<${p99Ms}`),
    dropped_iterations: limit("count==0"),
  },
  summaryTrendStats: trendStats,
  setupTimeout: "15m",
  teardownTimeout: "5m",
}

export const setup = (): Promise<People> => gather({ users, servers })
export const teardown = (people: People): Promise<void> => disperse(people)

/** Ids are too long for a number. */
const isBelow = (a: string, b: string) => (a.length === b.length ? a < b : a.length < b.length)
const isNewestFirst = (ids: readonly string[]) => ids.every((id, i) => i === 0 || isBelow(id, ids[i - 1]!))

function checked(reply: Answer, what: string, isRight: (body: unknown) => boolean): void {
  if (reply.status === 429) limited.add(1)
  check(reply, { [what]: ({ status, body }) => status === 200 && isRight(JSON.parse(body)) })
}

export async function request(people: People): Promise<void> {
  const n = exec.scenario.iterationInTest
  // Rounds of six, so that each kind is spread evenly over the time; each round in another channel.
  const { token, channel } = turnOf(people, Math.floor(n / 6))
  const messages = `/channels/${channel}/messages`
  const kind = n % 6
  if (kind % 2 === 0)
    checked(await ask("GET", "/users/@me", { name: "me", token }), "one's own account is answered", body =>
      Boolean((body as { id?: string }).id),
    )
  else if (kind === 5) {
    const content = `message ${n} of ${people.run}`
    const body = { content, nonce: `${people.run}-${n}` }
    checked(await ask("POST", messages, { name: "post", token, body }), "a post comes back as it was sent", reply => {
      const sent = reply as { content?: string; nonce?: string }
      return sent.content === content && sent.nonce === body.nonce
    })
  } else
    checked(await ask("GET", `${messages}?limit=50`, { name: "page", token }), "a page is newest first", page =>
      isNewestFirst((page as { id: string }[]).map(({ id }) => id)),
    )
}

export function handleSummary(data: SummaryData): Record<string, string> {
  const load = `${rate} requests a second of ${users} people in ${servers} servers`
  return summarize(data, load, [
    { label: "GET /users/@me", metric: "http_req_duration{name:me}" },
    { label: "a page of 50 messages", metric: "http_req_duration{name:page}" },
    { label: "a post", metric: "http_req_duration{name:post}" },
    { label: "right answers", metric: "checks" },
    { label: "arrivals that could not begin", metric: "dropped_iterations" },
  ])
}
