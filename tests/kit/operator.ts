import { onTestFinished } from "vitest"
import { clusterConfig } from "../../cluster.config.ts"
import type { ServiceNotice } from "../../src/domain/service/server-status.ts"
import { openStorage } from "../../src/storage/storage.ts"
import type { Cluster } from "./cluster.ts"
import { until } from "./until.ts"

/** Workers that look at what operators say often enough for a test. */
export const attentive = { service: { lookEveryMs: 50 } }

/** What an operator does, through the same functions as the program for operators. */
export function operatorOf(cluster: Pick<Cluster, "databaseUrl">) {
  const storage = openStorage({
    ...clusterConfig.storage,
    readConnections: 1,
    url: cluster.databaseUrl,
    name: "test operator",
  })
  onTestFinished(() => storage.close())
  const { serverStatus, addressBlocks, accessTokens, operatorRequests, bots, fileBlocks } = storage
  return {
    requests: operatorRequests,
    setState: (notice: Partial<ServiceNotice> & Pick<ServiceNotice, "state">) =>
      serverStatus.setState({ message: null, estimated_downtime_seconds: null, restart_at: null, ...notice }),
    block: (address: string, lastsSeconds: number | null = null) =>
      addressBlocks.block({ address, reason: null, blocked_by: null, lastsSeconds }),
    unblock: addressBlocks.unblock,
    blocks: addressBlocks.list,
    accessTokens,
    bots,
    fileBlocks,
    /** Says it, and waits for the worker that does it. */
    async command(user: string, command: string, input: object = {}) {
      const request = await operatorRequests.command(user, command, input)
      const answer = () => operatorRequests.answerToCommand(request)
      await until("the command is answered", async () => (await answer()) !== undefined, { timeoutMs: 10_000 })
      return answer()
    },
    /** Waits for the worker that carries it out. */
    async outcome(request: string) {
      await until("the request is answered", async () => (await operatorRequests.answerTo(request)) !== undefined)
      return operatorRequests.answerTo(request)
    },
  }
}
