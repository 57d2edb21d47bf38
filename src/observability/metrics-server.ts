import { once } from "node:events"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { Registry } from "prom-client"
import { captureOf, type Debug } from "./debug.ts"
import type { Log } from "./log.ts"

export interface MetricsServerOptions {
  host: string
  /** 0: any free one. */
  port: number
  render: () => Promise<string>
  debug: Debug
  log: Log
}

/** No page of a browser can send it from elsewhere without being asked for leave. */
const leave = "starling-debug"

/**
 * `/metrics`, `/healthz` and `/debug` on a port of their own, for the operator's network only.
 * Rejects, naming the port, when it cannot listen.
 */
export async function startMetricsServer({ host, port, render, debug, log }: MetricsServerOptions) {
  const server = createServer((request, response) => {
    const answer = (status: number, body: string, type = "text/plain; charset=utf-8") =>
      response.writeHead(status, { "content-type": type }).end(body)

    const [path, query] = (request.url ?? "").split("?", 2)
    const [, captured] = /^\/debug\/(profile|heap)$/.exec(path ?? "") ?? []
    if (captured !== undefined && request.method === "POST" && request.headers[leave] !== undefined) {
      const asked = captureOf(captured, new URLSearchParams(query))
      if (typeof asked === "string") return answer(400, `${asked}\n`)
      debug.capture(asked.worker, asked.capture).then(
        file => answer(200, `${file}\n`),
        (error: Error) => answer(409, `${error.message}\n`),
      )
    } else if (request.method === "GET" && path === "/debug") {
      debug.holdings().then(
        held => answer(200, `${JSON.stringify(held, null, 2)}\n`, "application/json"),
        (err: unknown) => {
          log.error({ err }, "what processes hold could not be shown")
          answer(500, "Internal server error\n")
        },
      )
    } else if (request.method !== "GET" || (path !== "/metrics" && path !== "/healthz")) answer(404, "Not Found\n")
    else if (path === "/healthz") answer(200, "ok\n")
    else {
      render().then(
        text => answer(200, text, Registry.PROMETHEUS_CONTENT_TYPE),
        (err: unknown) => {
          log.error({ err }, "metrics could not be rendered")
          answer(500, "Internal server error\n")
        },
      )
    }
  })
  server.requestTimeout = 10_000

  server.listen(port, host)
  try {
    await once(server, "listening")
  } catch (cause) {
    const taken = (cause as NodeJS.ErrnoException).code === "EADDRINUSE"
    const why = taken ? "is already in use" : "cannot be opened"
    throw new Error(`Metrics port ${port} on ${host} ${why}; METRICS_PORT chooses another`, { cause })
  }

  return {
    port: (server.address() as AddressInfo).port,
    async close() {
      const closed = once(server, "close")
      server.close()
      server.closeAllConnections()
      await closed
    },
  }
}
