import { faultsOf, isBeside, operationsOf, seconds, type Check, type Finding } from "../history.ts"
import { stretchOf } from "../machine.ts"

const promised = 5e9
const healing = 10e9
/** After a fault of something else its effects may last this long. */
const echo = 4e9

/**
 * P11: while PostgreSQL or Redis is away every request is answered within five seconds, by 2xx, a
 * refusal, or a 503 with Retry-After; the process says that it lives; ten seconds after healing
 * everything goes on. A false 2xx is P1's matter.
 */
export const dependencies: Check = history => {
  const findings: Finding[] = []
  const stretch = stretchOf(history)
  const operations = operationsOf(history)
  const faults = faultsOf(history)
  for (const { op, action, status, retryAfterSeconds, to } of operations) {
    if (status > 500 && status !== 503)
      findings.push({ promise: "P11", what: `${action.do} ${op} was answered ${status}`, at: to })
    if (status === 500) findings.push({ promise: "P11", what: `${action.do} ${op} met a bug: 500`, at: to })
    if (status === 503 && retryAfterSeconds === undefined && action.do !== "readyz")
      findings.push({ promise: "P11", what: `${action.do} ${op} was answered 503 without Retry-After`, at: to })
  }
  const others = faults.filter(fault => fault.kind !== "dependency" && !isBeside(fault))
  for (const fault of faults) {
    if (fault.kind !== "dependency") continue
    const isOurs = (from: number, to: number) =>
      from >= fault.from && from <= fault.to && !others.some(other => other.from < to && other.to + echo > from)
    for (const { op, action, from, to, status } of operations) {
      if (!isOurs(from, to)) continue
      if (to - from > promised * stretch(from, to))
        findings.push({
          promise: "P11",
          what: `${action.do} ${op} took ${seconds(to - from).toFixed(1)} s while ${fault.name}`,
          at: from,
        })
      if (action.do === "livez" && status !== 200 && status !== 0)
        findings.push({ promise: "P11", what: `/livez answered ${status} while ${fault.name}`, at: from })
    }
    const next = Math.min(
      history.at(-1)?.at ?? 0,
      ...faults.filter(next => next.from > fault.from && !isBeside(next)).map(({ from }) => from),
    )
    const healed = fault.to + healing * stretch(fault.to, fault.to + healing)
    if (next < healed) continue
    const accepted = new Set<string>()
    const tried = new Set<string>()
    for (const { action, from, to, outcome } of operations) {
      if (action.do !== "send" || to < fault.to || from > healed) continue
      if (outcome === "ok" && to <= healed) accepted.add(action.channel)
      else if (outcome !== "fail") tried.add(action.channel)
    }
    for (const channel of tried)
      if (!accepted.has(channel))
        findings.push({
          promise: "P11",
          what: `${channel} accepted nothing for ${Math.round(seconds(healed - fault.to))} s after ${fault.name} was over`,
          at: fault.to,
        })
  }
  return findings
}
