import { faultsOf, finalsOf, type Check, type Finding } from "../history.ts"

/** An owner that stood still for so many nanoseconds has been declared dead. */
const leaseNs = 2.5e9

/**
 * P7: two owners never both commit. One owner commits its turns in their order, so the order of
 * commits is the order of ids; the late write of a former owner would stand before what its
 * successor had committed already. And where an owner was paused beyond its lease, somebody must
 * have taken its shards.
 */
export const fence: Check = history => {
  const findings: Finding[] = []
  for (const [channel, messages] of finalsOf(history)) {
    let latest: { id: string; committed: number } | undefined
    for (const { id, committed } of messages) {
      if (committed === undefined) continue
      if (latest && committed < latest.committed)
        findings.push({
          promise: "P7",
          what: `in ${channel} ${latest.id} was committed ${latest.committed - committed} µs after ${id}, which follows it`,
        })
      else latest = { id, committed }
    }
  }
  for (const fault of faultsOf(history)) {
    if (fault.kind !== "worker" || !fault.name.includes("paused") || fault.to - fault.from < 2 * leaseNs) continue
    const samples = history.filter(entry => entry.type === "counters")
    const before = samples.findLast(({ at }) => at <= fault.from)?.values["takeOvers"] ?? 0
    const after = samples.findLast(({ at }) => at <= fault.to + 10e9)?.values["takeOvers"] ?? 0
    if (after <= before)
      findings.push({
        promise: "P7",
        what: `${fault.target} was ${fault.name}, and nobody took its shards`,
        at: fault.from,
      })
  }
  return findings
}
