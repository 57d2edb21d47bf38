import type { Member } from "../cluster/members.ts"
import type { Config } from "../config.ts"
import type { MetricsOptions } from "../observability/metrics.ts"
import { TraceExport } from "../observability/traces.ts"

/** Where spans of traced requests go; nothing, where none are. */
export function tracesOf({ traces }: Config, { id, host, role }: Member): MetricsOptions {
  if (!traces) return {}
  const { url, headers, share } = traces
  const resource = {
    "service.name": "starling",
    "service.instance.id": id,
    "host.id": host,
    "process.pid": process.pid,
    "starling.role": role,
  }
  return { traceShare: share, traces: counted => new TraceExport({ url, headers, resource, counted }) }
}
