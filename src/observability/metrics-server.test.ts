import { expect, test } from "vitest"
import { silentLog } from "./log.ts"
import { startMetricsServer } from "./metrics-server.ts"

const options = { host: "127.0.0.1", port: 0, render: async () => "up 1\n", log: silentLog }

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
