import { signal, type ReadonlySignal } from "@preact/signals"
import type { Client } from "../../client/client.ts"
import type { StatusResponse } from "../../client/contract.ts"
import type { GatewayClient, GatewayClose } from "../../client/gateway.ts"

/** Why there is no connection, or soon will be none. */
export interface Outage {
  /** The state that an operator has set; `blocked` and `closed` do not end by themselves. */
  readonly kind: Exclude<StatusResponse["state"], "running"> | "blocked" | "closed"
  /** The operator's own words; empty: there are none. */
  readonly message: string
}

/** What the server says where the operator has said nothing: the page says that itself. */
const usualMessages: ReadonlySet<string> = new Set([
  "Server is under maintenance",
  "Server shutting down",
  "Server is restarting",
])
const ownWords = (message: string | null): string => (message === null || usualMessages.has(message) ? "" : message)

/** As the guide to the gateway asks of clients. */
const askEveryMs = 5_000
const kindsByClose: Readonly<Record<number, Outage["kind"]>> = {
  4003: "blocked",
  4016: "maintenance",
  4017: "shutting_down",
}

/**
 * Follows what the gateway says of the service. Where an operator has set a state, it asks until the
 * service runs again, and connects: the return to it is not announced.
 */
export function followService(gateway: GatewayClient, client: Client) {
  const outage = signal<Outage | undefined>(undefined)
  let timer: ReturnType<typeof setTimeout> | undefined
  let isEnded = false
  const ask = async () => {
    const answer = await client.getStatus({}, { signal: AbortSignal.timeout(askEveryMs) }).catch(() => undefined)
    if (isEnded) return
    if (answer?.state === "running") {
      timer = undefined
      outage.value = undefined
      gateway.connect().catch(() => {})
      return
    }
    if (answer) outage.value = { kind: answer.state, message: ownWords(answer.maintenance_message) }
    timer = setTimeout(() => void ask(), askEveryMs)
  }
  const begin = (found: Outage) => {
    outage.value = found
    // Those that were closed together do not come back together.
    timer ??= setTimeout(() => void ask(), askEveryMs * Math.random())
  }
  gateway.on("status", status => {
    const { state, message } = status as { state: StatusResponse["state"]; message: string }
    if (state !== "running") begin({ kind: state, message: ownWords(message) })
  })
  const arrived = () => {
    if (timer === undefined) outage.value = undefined
  }
  gateway.on("ready", arrived)
  gateway.on("resumed", arrived)
  return {
    outage: outage as ReadonlySignal<Outage | undefined>,
    /** The gateway has closed, and does not come back by itself. */
    closed({ code }: GatewayClose): void {
      const kind = kindsByClose[code] ?? "closed"
      if (kind === "blocked" || kind === "closed") outage.value = { kind, message: "" }
      else begin(outage.value?.kind === kind ? outage.value : { kind, message: "" })
    },
    end(): void {
      isEnded = true
      clearTimeout(timer)
    },
  }
}
