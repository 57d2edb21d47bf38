/** The process of the neighbours. It is told which one is next, and gives way to everything else on the machine. */
import { setPriority } from "node:os"
import { setTimeout as sleep } from "node:timers/promises"
import type { Reply } from "../../kit/neighbour.ts"
import type { Scene } from "../../kit/neighbour-scene.ts"
import { Acts } from "./acts.ts"
import { neighbours } from "./neighbours.ts"

type Order = { type: "scene"; scene: Scene } | { type: "measure"; name: string; forMs: number } | { type: "go" }

setPriority(5)
const tell = (reply: Reply) => process.send!(reply)
let scene: Scene | undefined
let go = () => {}

async function measure(name: string, forMs: number): Promise<void> {
  const over = new AbortController()
  let isBegun = false
  const begin = async () => {
    const isTime = new Promise<void>(resolve => (go = resolve))
    tell({ type: "ready" })
    await isTime
    isBegun = true
    setTimeout(() => over.abort(), forMs)
  }
  const acts = new Acts(scene!, over.signal, begin)
  try {
    await neighbours[name]!(acts)
    if (!isBegun) throw new Error(`${name} did nothing`)
    if (!over.signal.aborted) await sleep(forMs, undefined, { signal: over.signal }).catch(() => {})
    tell({ type: "done", answers: Object.fromEntries(acts.answers) })
  } catch (error) {
    tell({ type: "failed", error: `${name}: ${(error as Error).stack}` })
  } finally {
    acts.end()
  }
}

process.on("message", (order: Order) => {
  if (order.type === "scene") scene = order.scene
  else if (order.type === "go") go()
  else measure(order.name, order.forMs).catch(() => process.exit(1))
})
process.on("disconnect", () => process.exit())
