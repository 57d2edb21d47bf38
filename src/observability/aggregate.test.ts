import { EventEmitter } from "node:events"
import type { Cluster } from "node:cluster"
import { Registry } from "prom-client"
import { expect, test } from "vitest"
import { aggregateCluster, answerMetrics, type Channel } from "./aggregate.ts"
import { declareIn } from "./instruments.ts"
import type { ProcessRole } from "./log.ts"

/**
 * A cluster whose IPC is JSON between two emitters, so that processes can be held still and killed.
 */
function cluster(options?: { timeoutMs?: number }) {
  const primary = new EventEmitter()
  const own = declared()
  const aggregate = aggregateCluster(own.registry, primary as unknown as Cluster, options)
  let ids = 0

  async function boot(worker: string, role: ProcessRole = "web") {
    const id = ++ids
    const inbox = new EventEmitter()
    const questions: unknown[] = []
    let paused = false
    const copy = (message: unknown): unknown => JSON.parse(JSON.stringify(message))
    const seenByPrimary = {
      id,
      send(message: unknown) {
        if (paused) questions.push(copy(message))
        else inbox.emit("message", copy(message))
        return true
      },
    }
    let sent = 0
    const channel = Object.assign(inbox, {
      connected: true,
      send(message: unknown, done: (error: Error | null) => void) {
        sent++
        primary.emit("message", seenByPrimary, copy(message))
        done(null)
        return true
      },
    })
    const counts = declared()
    const answering = answerMetrics({ registry: counts.registry, worker, role }, channel as unknown as Channel)
    await settle()
    return {
      ...counts,
      answering,
      sent: () => sent,
      pause: () => (paused = true),
      async resume() {
        paused = false
        for (const message of questions.splice(0)) inbox.emit("message", message)
        await settle()
      },
      kill: () => {
        channel.connected = false
        paused = true
        primary.emit("disconnect", seenByPrimary)
      },
    }
  }

  async function scrape() {
    const text = await aggregate.render()
    const values = new Map(
      text
        .split("\n")
        .filter(line => line !== "" && !line.startsWith("#"))
        .map(line => [line.slice(0, line.lastIndexOf(" ")), Number(line.slice(line.lastIndexOf(" ") + 1))]),
    )
    return { text, get: (series: string) => values.get(series), series: [...values.keys()] }
  }
  return { own, boot, scrape, aggregate }
}

function declared() {
  const registry = new Registry()
  const declare = declareIn(registry)
  return {
    registry,
    posts: declare.counter("posts_total", "Posts"),
    resumes: declare.counterFamily<[outcome: string]>("resumes_total", "Resumes", ["outcome"], { most: 5 }),
    seconds: declare.histogram("turn_seconds", "Turns", [0.1, 1]),
    sessions: declare.gauge("sessions", "Sessions"),
  }
}

async function settle() {
  for (let n = 0; n < 5; n++) await new Promise(resolve => setImmediate(resolve))
}

test("AGG2: counters and histograms are summed over all processes, gauges shown per worker", async () => {
  const { own, boot, scrape } = cluster()
  const east = await boot("web-0")
  const west = await boot("web-1")
  const job = await boot("job-0", "job")
  own.posts.inc(1)
  east.posts.inc(10)
  west.posts.inc(100)
  job.resumes.of("invalid").inc(2)
  east.resumes.of("invalid").inc(3)
  east.seconds.observe(0.05)
  west.seconds.observe(0.5)
  west.seconds.observe(5)
  east.sessions.set(7)
  west.sessions.set(8)

  const seen = await scrape()
  expect(seen.get("posts_total")).toBe(111)
  expect(seen.get('resumes_total{outcome="invalid"}')).toBe(5)
  expect(seen.get('turn_seconds_bucket{le="0.1"}')).toBe(1)
  expect(seen.get('turn_seconds_bucket{le="1"}')).toBe(2)
  expect(seen.get('turn_seconds_bucket{le="+Inf"}')).toBe(3)
  expect(seen.get("turn_seconds_count")).toBe(3)
  expect(seen.get("turn_seconds_sum")).toBeCloseTo(5.55)
  expect(seen.get('sessions{worker="web-0"}')).toBe(7)
  expect(seen.get('sessions{worker="web-1"}')).toBe(8)
  expect(seen.get('sessions{worker="primary"}')).toBe(0)
  expect(seen.get('starling_processes{role="web"}')).toBe(2)
  expect(seen.get("starling_metrics_missing_workers")).toBe(0)
  expect(seen.text).toContain("# TYPE posts_total counter")
  expect(seen.text).toContain("# TYPE turn_seconds histogram")
})

test("AGG1: sums do not fall when workers die and come back, again and again", async () => {
  const { boot, scrape } = cluster()
  const steady = await boot("web-0")
  let total = 0
  let before = 0
  for (let life = 0; life < 5; life++) {
    const mortal = await boot("web-1")
    mortal.posts.inc(10)
    mortal.seconds.observe(0.5)
    mortal.sessions.set(3)
    steady.posts.inc(1)
    total += 11
    expect((await scrape()).get("posts_total")).toBe(total)
    mortal.posts.inc(1000) // after the last snapshot, lost with kill -9
    mortal.kill()
    const seen = await scrape()
    expect(seen.get("posts_total")).toBe(total)
    expect(seen.get("turn_seconds_count")).toBe(life + 1)
    expect(seen.get('sessions{worker="web-1"}')).toBeUndefined()
    expect(seen.get("posts_total")).toBeGreaterThanOrEqual(before)
    before = seen.get("posts_total")!
  }
  const series = (await scrape()).series.length
  await boot("web-1")
  expect((await scrape()).series.length).toBe(series + 1) // its one gauge (AGG2)
})

test("AGG1: a worker that ends in good order loses nothing", async () => {
  const { boot, scrape } = cluster()
  const worker = await boot("web-0")
  worker.posts.inc(5)
  await worker.answering.finish()
  worker.kill()
  expect((await scrape()).get("posts_total")).toBe(5)
})

test("AGG3: a worker that stands still is missing, its last totals stay, and one answer catches up", async () => {
  const { boot, scrape } = cluster({ timeoutMs: 50 })
  const east = await boot("web-0")
  const west = await boot("web-1")
  east.posts.inc(1)
  west.posts.inc(10)
  west.sessions.set(4)
  expect((await scrape()).get("posts_total")).toBe(11)

  west.pause()
  east.posts.inc(1)
  west.posts.inc(10)
  for (let n = 0; n < 3; n++) {
    const seen = await scrape()
    expect(seen.get("starling_metrics_missing_workers")).toBe(1)
    expect(seen.get('starling_processes{role="web"}')).toBe(1)
    expect(seen.get("posts_total")).toBe(12)
    expect(seen.get('sessions{worker="web-1"}')).toBeUndefined()
  }

  const sent = west.sent()
  await west.resume()
  expect(west.sent()).toBe(sent + 1)
  const seen = await scrape()
  expect(seen.get("starling_metrics_missing_workers")).toBe(0)
  expect(seen.get("posts_total")).toBe(22)
})

test("a worker that dies during a scrape does not hold it up", async () => {
  const { boot, scrape } = cluster({ timeoutMs: 60_000 })
  const worker = await boot("web-0")
  worker.posts.inc(3)
  await scrape()
  worker.pause()
  const scraping = scrape()
  worker.kill()
  const seen = await scraping
  expect(seen.get("posts_total")).toBe(3)
  expect(seen.get("starling_metrics_missing_workers")).toBe(0)
})

test("scrapes at the same time share one question", async () => {
  const { boot, aggregate } = cluster()
  const worker = await boot("web-0")
  const sent = worker.sent()
  await Promise.all([aggregate.render(), aggregate.render(), aggregate.render()])
  expect(worker.sent()).toBe(sent + 1)
})

test("messages of others are left alone", async () => {
  const { aggregate, scrape } = cluster()
  for (const message of [null, "metrics", { type: "ready" }, { type: "metrics", id: 1 }])
    aggregate.receive(9, message, () => {})
  expect((await scrape()).get("starling_metrics_missing_workers")).toBe(0)
})
