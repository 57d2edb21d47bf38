import { once } from "node:events"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { Registry } from "prom-client"
import type { Log } from "./log.ts"

export interface MetricsServerOptions {
  host: string
  /** 0: any free one. */
  port: number
  render: () => Promise<string>
  log: Log
}

/**
 * `/metrics` and `/healthz` on a port of their own, for the operator's network only. Rejects,
 * naming the port, when it cannot listen.
 */
export async function startMetricsServer({ host, port, render, log }: MetricsServerOptions) {
  const server = createServer((request, response) => {
    const answer = (status: number, body: string, type = "text/plain; charset=utf-8") =>
      response.writeHead(status, { "content-type": type }).end(body)

    const path = request.url?.split("?", 1)[0]
    if (request.method !== "GET" || (path !== "/metrics" && path !== "/healthz")) answer(404, "Not Found\n")
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
