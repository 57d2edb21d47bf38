import { faultsOf, isA, isBeside, operationsOf, seconds, type Check, type Finding, type History } from "../history.ts"
import { stretchOf } from "../machine.ts"

const promised = 5e9
/** A channel that accepted nothing for this long before the kill was broken by something else. */
const healthy = 2e9

export interface Gap {
  channel: string
  fault: string
  /** From the last success before, or the fault where that is later, to the next. */
  nanoseconds: number
  at: number
}

/** The time without an acknowledged send around every fault, by channel. */
export function gapsOf(history: History): Gap[] {
  const acks = new Map<string, number[]>()
  for (const { action, outcome, to } of operationsOf(history).filter(isA("send")))
    if (outcome === "ok") {
      const list = acks.get(action.channel) ?? []
      acks.set(action.channel, list)
      list.push(to)
    }
  const faults = faultsOf(history)
  return [...acks].flatMap(([channel, list]) => {
    list.sort((a, b) => a - b)
    return faults.flatMap(({ name, from, to }): Gap[] => {
      const end = Math.max(Number.isFinite(to) ? to : from, from)
      const next = list.find(at => at > end)
      let longest = 0
      let last = from
      for (const at of list) {
        if (at <= from) continue
        longest = Math.max(longest, at - last)
        last = at
        if (at > end) break
      }
      return next === undefined ? [] : [{ channel, fault: name, nanoseconds: longest, at: from }]
    })
  })
}

/** P8: when one worker is killed, every channel accepts a message again within five seconds. */
export const takeOver: Check = history => {
  const acks = operationsOf(history)
    .filter(isA("send"))
    .filter(({ outcome }) => outcome === "ok")
    .toSorted((a, b) => a.to - b.to)
  const channels = new Set(acks.map(({ action }) => action.channel))
  const faults = faultsOf(history)
  const ended = history.at(-1)?.at ?? 0
  const stretch = stretchOf(history)
  return faults.flatMap(fault => {
    if (fault.kind !== "worker" || !fault.name.includes("killed")) return []
    // What broke next is another story.
    const next = faults.filter(next => next.from > fault.from && !isBeside(next))
    const until = Math.min(ended, ...next.map(({ from }) => from))
    return [...channels].flatMap((channel): Finding[] => {
      const isHealthy = acks.some(
        ({ action, to }) => action.channel === channel && to <= fault.from && to > fault.from - healthy,
      )
      if (!isHealthy) return []
      const accepted = acks.find(({ action, to }) => action.channel === channel && to > fault.from)?.to ?? ended
      const gap = Math.min(accepted, until) - fault.from
      if (gap <= promised * stretch(fault.from, fault.from + gap)) return []
      return [
        {
          promise: "P8",
          what: `${channel} accepted nothing for ${seconds(accepted - fault.from).toFixed(1)} s after ${fault.target} was killed`,
          at: fault.from,
        },
      ]
    })
  })
}
