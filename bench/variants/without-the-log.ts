/**
 * The program without the delivery log: what a batch publishes goes straight to the sessions of the
 * worker that committed it, and of no other.
 */
import { DeliveryLogs } from "../../src/cluster/delivery-log.ts"
import { itemsOf, type LogItem } from "../../src/domain/core/log-entry.ts"
import { Gateway } from "../../src/gateway/gateway.ts"
import { replace } from "./replace.ts"

// A worker's process has one gateway.
let deliver: ((items: readonly LogItem[]) => void) | undefined
/** The highest position that was given to a piece, by the log or here. */
let s = 0

const { begin, takeItems } = Gateway.prototype
Gateway.prototype.begin = function (this: Gateway, position) {
  deliver = items => this.takeItems(items)
  s = position
  begin.call(this, position)
}
Gateway.prototype.takeItems = function (this: Gateway, items) {
  s = Math.max(s, items.at(-1)?.s ?? 0)
  takeItems.call(this, items)
}

replace(DeliveryLogs, "append", "the log", async (_worker, parts) => {
  for (const { fields } of parts) deliver?.(itemsOf(`${s + fields.length / 2}-0`, fields))
  return parts.map(() => ({ is: "ok" }))
})

await import("../../src/main.ts")
