/**
 * People come, identify, listen for a while and leave, at a constant rate; meanwhile messages are posted
 * at a constant rate. Measured: from dialing to READY, from a post to its answer and to its frame at each
 * listener, and whether every listener hears each message once and in order.
 *
 *   k6 run load-tests/chat.ts                                  where k6 is
 *   npm run scenario -- load-tests/chat.ts                     without it
 *   … -e VARIANT=ramp -e TARGET=https://chat.example -e TOKENS=/path/to/tokens -e SESSIONS=500 -e POSTS=20
 *
 * README.md beside it lists what can be set.
 */
import exec from "k6/execution"
import { Counter, Rate, Trend } from "k6/metrics"
import type { Options } from "k6/options"
import { clearInterval, clearTimeout, setInterval, setTimeout } from "k6/timers"
import { WebSocket } from "k6/websockets"
import { Order, readStamp, written } from "./lib/order.ts"
import { disperse, gather, turnOf, type People } from "./lib/people.ts"
import { arrivals, limit, variantName } from "./lib/profile.ts"
import { summarize, trendStats, type SummaryData } from "./lib/summary.ts"
import { ask, gatewayUrl, numberOf } from "./lib/target.ts"

const isSmoke = variantName === "smoke"
const sessions = numberOf("SESSIONS", isSmoke ? 20 : 200)
const posts = numberOf("POSTS", isSmoke ? 4 : 20)
const users = Math.ceil(numberOf("USERS", sessions))
const servers = Math.ceil(numberOf("SERVERS", Math.max(1, sessions / 50)))
const staySeconds = numberOf("STAY", isSmoke ? 5 : 120)
const socketsPerUser = Math.ceil(numberOf("SOCKETS_PER_VU", 1))
const padding = "x".repeat(Math.floor(numberOf("BYTES", 100)))
/** A session that is not ready by then is given up. */
const readyTimeoutMs = 30_000

const timeToReady = new Trend("time_to_ready", true)
const postAnswered = new Trend("post_answered", true)
const postToFrame = new Trend("post_to_frame", true)
const accepted = new Rate("posts_accepted")
const kept = new Rate("sessions_kept")
const inOrder = new Rate("frames_in_order")
const limited = new Counter("refused_429")

export const options: Options = {
  scenarios: {
    sessions: arrivals("session", sessions / staySeconds / socketsPerUser, staySeconds + 2, {
      gracefulStop: `${staySeconds + 30}s`,
    }),
    // When as many are there as will be.
    posts: arrivals("post", posts, 2, { startTime: `${Math.round(staySeconds)}s`, gracefulStop: "30s" }),
  },
  thresholds: {
    time_to_ready: limit(`p(99)<${numberOf("READY_P99_MS", 2_000)}`),
    post_answered: limit(`p(99)<${numberOf("POST_P99_MS", 1_000)}`),
    post_to_frame: limit(`p(99)<${numberOf("FRAME_P99_MS", 1_000)}`),
    posts_accepted: limit("rate>0.999"),
    sessions_kept: limit("rate>0.999"),
    frames_in_order: limit("rate==1"),
    dropped_iterations: limit("count==0"),
  },
  summaryTrendStats: trendStats,
  setupTimeout: "15m",
  teardownTimeout: "5m",
}

export const setup = (): Promise<People> => gather({ users, servers })
export const teardown = (people: People): Promise<void> => disperse(people)

export async function session({ run, tokens }: People): Promise<void> {
  const first = exec.scenario.iterationInTest * socketsPerUser
  await Promise.all(Array.from({ length: socketsPerUser }, (_, i) => stay(run, tokens[(first + i) % tokens.length]!)))
}

interface Frame {
  readonly op: number
  readonly t?: string
  readonly s?: number | null
  readonly d: { readonly heartbeat_interval?: number; readonly content?: unknown } | null
}

/** From dialing until STAY seconds after READY; resolves when the connection is closed. */
function stay(run: string, token: string): Promise<void> {
  return new Promise(resolve => {
    const dialedAtMs = Date.now()
    const socket = new WebSocket(gatewayUrl)
    const order = new Order()
    let seq: number | null = null
    let isLeaving = false
    let isOver = false
    let heartbeat: ReturnType<typeof setInterval> | undefined
    const leave = () => {
      isLeaving = true
      socket.close()
    }
    let leaving = setTimeout(() => socket.close(), readyTimeoutMs)

    socket.addEventListener("message", event => {
      const frame = JSON.parse(event.data as string) as Frame
      if (typeof frame.s === "number") seq = frame.s
      if (frame.op === 10) {
        heartbeat = setInterval(() => socket.send(JSON.stringify({ op: 1, d: seq })), frame.d!.heartbeat_interval!)
        socket.send(JSON.stringify({ op: 2, d: { token, properties: {} } }))
      } else if (frame.t === "READY") {
        timeToReady.add(Date.now() - dialedAtMs)
        clearTimeout(leaving)
        leaving = setTimeout(leave, staySeconds * 1_000)
      } else if (frame.t === "MESSAGE_CREATE") {
        const stamp = readStamp(frame.d?.content)
        if (stamp === undefined || stamp.run !== run) return
        postToFrame.add(Date.now() - stamp.sentAtMs)
        inOrder.add(order.isNext(stamp))
      }
    })
    const end = () => {
      if (isOver) return
      isOver = true
      if (heartbeat !== undefined) clearInterval(heartbeat)
      clearTimeout(leaving)
      kept.add(isLeaving)
      resolve()
    }
    socket.addEventListener("close", end)
    socket.addEventListener("error", end)
  })
}

/** By channel: posts of this virtual user that were acknowledged. It sends one at a time. */
const numbers = new Map<number, number>()
/** Goes up when it is not known whether a post was taken: its number must not come again. */
let life = 0

export async function post(people: People): Promise<void> {
  const { token, place, channel } = turnOf(people, exec.scenario.iterationInTest)
  const sender = `${exec.vu.idInTest}.${life}`
  const number = (numbers.get(place) ?? 0) + 1
  const content = written({ run: people.run, sender, number, sentAtMs: Date.now() }, padding)
  const nonce = `${people.run}-${sender}-${place}-${number}`
  const reply = await ask("POST", `/channels/${channel}/messages`, { name: "post", token, body: { content, nonce } })
  const isAccepted = reply.status === 200
  accepted.add(isAccepted)
  if (isAccepted) {
    postAnswered.add(reply.timings.duration)
    numbers.set(place, number)
    return
  }
  if (reply.status === 429) limited.add(1)
  life++
  numbers.clear()
}

export function handleSummary(data: SummaryData): Record<string, string> {
  const load = `${sessions} sessions that stay ${staySeconds} s, ${posts} posts a second, in ${servers} servers`
  return summarize(data, load, [
    { label: "sessions: dialing to READY", metric: "time_to_ready" },
    { label: "sessions that were not cut off", metric: "sessions_kept" },
    { label: "posts: to the answer", metric: "post_answered" },
    { label: "posts accepted", metric: "posts_accepted" },
    { label: "posts: to the frame at a listener", metric: "post_to_frame" },
    { label: "frames in order, none left out", metric: "frames_in_order" },
    { label: "arrivals that could not begin", metric: "dropped_iterations" },
  ])
}
