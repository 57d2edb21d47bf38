import type { TemplatedApp } from "uWebSockets.js"
import type { Config } from "../config.ts"
import type { PresenceLookup } from "../actors/social/presence-lookup.ts"
import type { Admission } from "../cluster/admission.ts"
import { GatewaySessions } from "../cluster/gateway-sessions.ts"
import type { Tokens } from "../cluster/tokens.ts"
import { gatewayPath } from "../contract/pages.ts"
import {
  addressOf,
  clientAddress,
  isWithin,
  parseAddress,
  trustedProxies,
  type AddressRange,
} from "../domain/core/client-address.ts"
import { requestedOrigin } from "../domain/core/public-host.ts"
import type { IceServersFor } from "../domain/voice/voice.ts"
import { Gateway } from "../gateway/gateway.ts"
import type { GatewayPolicy } from "../gateway/parts.ts"
import type { ClusterInside } from "../runtime/join-cluster.ts"
import { systemClock as clock } from "../std/system-clock.ts"
import { unlimitedIn } from "./connection-limits.ts"
import type { FigureBoard } from "../cluster/figures.ts"
import type { ServerStatusWatch } from "./server-status-watch.ts"
import type { WebConnections } from "./web-connections.ts"
import type { WebWorkerOptions } from "./web-worker-options.ts"

/** What both entry points of a web worker stand on. */
export interface WebParts {
  readonly connections: WebConnections
  readonly cluster: ClusterInside
  readonly presences: PresenceLookup
  readonly service: ServerStatusWatch
  readonly board: FigureBoard
  readonly tokens: Tokens
  readonly admission: Admission
  readonly iceServers: IceServersFor
}

/** Clients that asked for the same address share its text. */
function gatewayUrlOf(
  { publicUrl, hasPublicUrl }: Pick<Config, "publicUrl" | "hasPublicUrl">,
  proxies: readonly AddressRange[],
): GatewayPolicy["gatewayUrl"] {
  const configured = `${publicUrl.replace(/^http/, "ws")}${gatewayPath}`
  if (hasPublicUrl) return () => configured
  let latest = configured
  return (peer, requested) => {
    const address = parseAddress(peer)
    const isBehindProxy = address !== undefined && proxies.some(range => isWithin(address, range))
    const origin = requestedOrigin(requested, isBehindProxy)
    if (origin === undefined) return configured
    const url = `${origin}${gatewayPath}`
    return url === latest ? latest : (latest = url)
  }
}

/** The gateway of a web worker, on the server that REST shares with it. */
export function openGateway(app: TemplatedApp, options: WebWorkerOptions, parts: WebParts): Gateway {
  const { config, topology, log, metrics } = options
  const { connections, cluster, presences, service, tokens, admission, iceServers } = parts
  const { policy } = config
  const proxies = trustedProxies(config.trustedProxies)
  return new Gateway({
    app,
    node: { ...cluster, presences },
    records: new GatewaySessions(connections.sessions, connections.keys, {
      isShortRead: () => cluster.membership.readsShortRecords,
      clock,
    }),
    storage: connections.storage,
    tokens: {
      look: () => tokens.look(),
      isStill: (access, look) => tokens.isStill(access, look),
      admit: token => tokens.admit(token),
      known: session => tokens.known(session),
      isFailedTooOften: admission.isFailedTooOften,
    },
    topology: {
      ...topology.gateway,
      connectionsPerUser: config.connectionsPerUser ?? topology.gateway.connectionsPerUser,
    },
    presence: topology.presence,
    policy: {
      limited: config.rateLimits,
      gatewayUrl: gatewayUrlOf(config, proxies),
      voice: policy,
      iceServers,
      allowedOrigins: policy.gateway_allowed_origins,
      compression: policy.gateway_compression_enabled,
      tokenBinding: policy.token_binding,
      isUnlimited: unlimitedIn(config),
      clientAddress: (peer, forwardedFor) =>
        clientAddress(parseAddress(peer) ?? addressOf(new Uint8Array(4)), forwardedFor, proxies),
    },
    service,
    clock,
    log,
    metrics,
  })
}
