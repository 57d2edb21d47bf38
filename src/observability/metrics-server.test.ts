import { expect, test } from "vitest"
import type { Debug } from "./debug.ts"
import { silentLog } from "./log.ts"
import { startMetricsServer } from "./metrics-server.ts"

const debug: Debug = {
  holdings: async () => ({ workers: [{ worker: "web-0" }], missing: 0 }),
  async capture(worker, capture) {
    if (worker !== "web-0") throw new Error("DEBUG_CAPTURES is off")
    return JSON.stringify(capture)
  },
}
const options = { host: "127.0.0.1", port: 0, render: async () => "up 1\n", debug, log: silentLog }

test("metrics and health have their paths, everything else is not found", async () => {
  const server = await startMetricsServer(options)
  const url = `http://127.0.0.1:${server.port}`
  const metrics = await fetch(`${url}/metrics?x=1`)
  expect(metrics.headers.get("content-type")).toContain("text/plain; version=0.0.4")
  expect(await metrics.text()).toBe("up 1\n")
  expect((await fetch(`${url}/healthz`)).status).toBe(200)
  expect((await fetch(`${url}/`)).status).toBe(404)
  expect((await fetch(`${url}/metrics`, { method: "POST", body: "x" })).status).toBe(404)
  await server.close()
  await expect(fetch(url)).rejects.toThrow()
})

test("a failure to render is a 500 without its cause", async () => {
  const server = await startMetricsServer({ ...options, render: () => Promise.reject(new Error("inside")) })
  const reply = await fetch(`http://127.0.0.1:${server.port}/metrics`)
  expect(reply.status).toBe(500)
  expect(await reply.text()).not.toContain("inside")
  await server.close()
})

test("a taken port is named", async () => {
  const server = await startMetricsServer(options)
  await expect(startMetricsServer({ ...options, port: server.port })).rejects.toThrow(String(server.port))
  await server.close()
})

test("what processes hold is shown, and captures are made only for who says that they want one", async () => {
  const server = await startMetricsServer(options)
  const url = `http://127.0.0.1:${server.port}/debug`
  expect(await (await fetch(url)).json()).toEqual({ workers: [{ worker: "web-0" }], missing: 0 })
  const headers = { "starling-debug": "yes" }
  const capture = async (path: string, init: RequestInit = { method: "POST", headers }) => {
    const reply = await fetch(`${url}/${path}`, init)
    return [reply.status, await reply.text()]
  }
  expect(await capture("profile?worker=web-0&seconds=2")).toEqual([200, '{"kind":"profile","seconds":2}\n'])
  expect(await capture("heap?worker=web-0")).toEqual([200, '{"kind":"heap"}\n'])
  // A form of another page could send it.
  expect(await capture("heap?worker=web-0", { method: "POST" })).toEqual([404, "Not Found\n"])
  expect(await capture("heap?worker=web-0", { headers })).toEqual([404, "Not Found\n"])
  expect(await capture("heap?worker=web-1")).toEqual([409, "DEBUG_CAPTURES is off\n"])
  for (const wrong of ["", "?worker=primary", "?worker=../x", "?worker=web-0&seconds=0", "?worker=web-0&seconds=61"])
    expect((await capture(`profile${wrong}`))[0]).toBe(400)
  await server.close()
})
