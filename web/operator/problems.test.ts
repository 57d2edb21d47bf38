import { expect, test } from "vitest"
import { problemsOf } from "./problems.ts"
import type { Now, Process, Sample } from "./wire.ts"

const at = 1_800_000_000
const worker = (change: Partial<Process> = {}): Process => ({
  id: "web-0",
  host: "east",
  role: "web",
  uptime_seconds: 60,
  memory_mb: 200,
  cpu_percent: 10,
  loop_p99_ms: 5,
  sessions: 10,
  seen_at: at,
  ...change,
})
const sample = (change: Partial<Sample> = {}): Sample => ({
  at,
  processes: 2,
  sessions: 10,
  requests: 1_000,
  messages: 10,
  deliveries: 100,
  errors: 0,
  lag_p50_ms: 2,
  lag_p99_ms: 9,
  postgres_ms: 1,
  redis_ms: 1,
  disk_percent: 40,
  oldest_job_seconds: null,
  ...change,
})
const well: Now = {
  at,
  every_seconds: 10,
  samples: [sample()],
  processes: [worker(), worker({ id: "job-0", role: "job", sessions: 0 })],
  postgres: { ok: true, latency_ms: 1, connections: 20, max_connections: 100, size_bytes: 1e9 },
  redis: { ok: true, latency_ms: 1, memory_bytes: 1e6, max_memory_bytes: null },
  disk: { free_bytes: 6e11, total_bytes: 1e12, percent: 40 },
  jobs: { waiting: 0, active: 0, failed: 0, oldest_seconds: null },
}
const found = (change: Partial<Now>) => problemsOf({ ...well, ...change }).map(({ about, tone }) => `${tone} ${about}`)

test("nothing is said while all is well, or while nothing is known", () => {
  expect(found({})).toEqual([])
  const nothing = { latency_ms: null, memory_bytes: null, max_memory_bytes: null }
  expect(
    found({
      samples: [],
      postgres: { ok: true, latency_ms: null, connections: null, max_connections: null, size_bytes: null },
      redis: { ok: true, ...nothing },
      disk: { free_bytes: null, total_bytes: null, percent: null },
    }),
  ).toEqual([])
})

test("each figure beyond its bound is a problem of its own, the worst first", () => {
  expect(
    found({
      processes: [worker({ seen_at: at - 31 }), worker({ id: "web-1", loop_p99_ms: 700 })],
      disk: { free_bytes: 1e9, total_bytes: 1e12, percent: 85 },
      redis: { ok: true, latency_ms: 1, memory_bytes: 95, max_memory_bytes: 100 },
    }),
  ).toEqual(["bad processes", "bad loop", "bad redis", "warm processes", "warm disk"])
  expect(found({ postgres: { ...well.postgres, ok: false } })).toEqual(["bad postgres"])
  expect(found({ postgres: { ...well.postgres, connections: 75 } })).toEqual(["warm postgres"])
  expect(found({ redis: { ...well.redis, ok: false } })).toEqual(["bad redis"])
  expect(found({ jobs: { ...well.jobs, waiting: 3, oldest_seconds: 120 } })).toEqual(["warm jobs"])
})

test("lag and errors count for a minute", () => {
  const late = sample({ at: at - 59, lag_p99_ms: 2_000 })
  expect(found({ samples: [late, sample()] })).toEqual(["bad lag"])
  expect(found({ samples: [{ ...late, at: at - 60 }, sample()] })).toEqual([])
  // 5 of 1,000 is a warning; where nothing but errors is known, all of it is wrong.
  expect(found({ samples: [sample({ errors: 5 })] })).toEqual(["warm errors"])
  expect(found({ samples: [sample({ errors: 4 })] })).toEqual([])
  expect(found({ samples: [sample({ requests: 0, errors: 1 })] })).toEqual(["bad errors"])
})

test("the fullest host counts, whichever answers", () => {
  expect(found({ samples: [sample({ disk_percent: 93 })] })).toEqual(["bad disk"])
  const processes = [...well.processes, worker({ host: "west" })]
  const samples = [sample({ disk_percent: 85 }), sample({ disk_percent: null })]
  const [problem] = problemsOf({ ...well, processes, samples })
  expect(problem!.what).toBe("The disk of another host is 85 % full.")
})

test("what is said names the figure and what to do", () => {
  const [problem] = problemsOf({ ...well, disk: { free_bytes: 4e10, total_bytes: 1e12, percent: 96 } })
  expect(problem).toMatchObject({ tone: "bad", what: "The disk is 96 % full; 40 GB are left." })
  expect(problem!.todo).toContain("object store")
})
