import { mkdir, writeFile } from "node:fs/promises"
import { basename, dirname } from "node:path"
import { checks } from "./checks/checks.ts"
import { figuresOf } from "./figures.ts"
import { faultsOf } from "./history.ts"
import type { ChaosResult } from "./run.ts"
import { drawTimeline } from "./timeline.ts"

const shown = 40

/** What a terminal is told in the end. */
export function summaryOf(result: ChaosResult): string {
  const { seed, seconds, schedule, outcomes, counters, missing, findings, historyFile, history } = result
  const { acked, refused, unknown, p50, p99, slowest, livez, slowness, events, sessions, gaps } = figuresOf(history)
  const of = (promise: string) => findings.filter(finding => finding.promise === promise).length
  const longest = gaps.toSorted((a, b) => b.milliseconds - a.milliseconds).slice(0, 5)
  return [
    `seed ${seed}, ${seconds} s`,
    // First: a list of what failed in a whole run of the tests shows how each message begins.
    ...missing.map(what => `MISSING ${what}`),
    ...findings
      .slice(0, shown)
      .map(
        ({ promise, what, at }) =>
          `FOUND ${promise} ${what}${at === undefined ? "" : ` (at ${(at / 1e9).toFixed(3)} s)`}`,
      ),
    ...(findings.length > shown ? [`FOUND ${findings.length - shown} more`] : []),
    `schedule: ${schedule.main.map(({ at, fault }) => `${(at / 1_000).toFixed(1)} ${fault}`).join("; ")}`,
    `beside it: ${schedule.side.map(({ at, fault }) => `${(at / 1_000).toFixed(1)} ${fault}`).join("; ")}`,
    ...(schedule.left.length > 0 ? [`left out of so short a run: ${schedule.left.join(", ")}`] : []),
    `faults: ${outcomes.map(({ fault, times, count, skipped }) => `${fault} ${skipped === undefined ? `${times}x (${count})` : `skipped: ${skipped}`}`).join("; ")}`,
    `sends: ${acked} acknowledged, ${refused} refused, ${unknown} unknown; p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(0)} ms, slowest ${slowest.toFixed(0)} ms`,
    `machine: /livez p95 ${livez.toFixed(0)} ms, ${slowness.mean.toFixed(1)} times slower than alone, ${slowness.worst.toFixed(1)} at worst`,
    `readers: ${events} events, ${sessions} sessions`,
    `counters: ${Object.entries(counters)
      .map(([name, value]) => `${name} ${value}`)
      .join(", ")}`,
    `longest without an acknowledgement: ${longest.map(({ fault, milliseconds }) => `${fault} ${(milliseconds / 1_000).toFixed(1)} s`).join("; ")}`,
    `lost: ${of("P1")}, doubled: ${of("P2")}, out of order: ${of("P3")}, holes: ${of("P5")}`,
    `history: ${historyFile}`,
  ].join("\n")
}

/** Markdown, with the picture beside it. */
export async function writeReport(result: ChaosResult, path: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true })
  const picture = path.replace(/(\.md)?$/, ".svg")
  const title = `Chaos run, seed ${result.seed}, ${result.seconds} s`
  await writeFile(picture, drawTimeline(result.history, title))
  await writeFile(path, markdown(result, title, basename(picture)))
}

const promises: Readonly<Record<string, string>> = {
  P1: "No acknowledged message is lost",
  P2: "One send is one message and one event per session",
  P3: "One order per channel",
  P4: "A GET on any worker shows what was acknowledged",
  P5: "A resume brings what was missed, once, in order",
  P6: "What cannot be resumed is said",
  P7: "Two owners never both commit",
  P8: "A killed worker's channels go on within 5 s",
  P11: "A dependency that is away gives a typed answer within 5 s",
  P12: "After a logout, a leave, a kick or a ban nothing more",
  P13: "A change of access acts on the stream at once",
  P14: "No stale presence",
  P15: "A job's effect happens once",
}

function markdown(result: ChaosResult, title: string, picture: string): string {
  const { outcomes, counters, missing, findings, schedule, history } = result
  const figures = figuresOf(history)
  const of = (promise: string) => findings.filter(finding => finding.promise === promise).length
  const total = (...names: string[]) => names.reduce((sum, name) => sum + (counters[name] ?? 0), 0)
  const gapOf = new Map(figures.gaps.map(({ fault, milliseconds }) => [fault, milliseconds]))
  const targets = new Map<string, Set<string>>()
  for (const { name, target } of faultsOf(history)) targets.set(name, (targets.get(name) ?? new Set()).add(target))
  const rows = (list: readonly (readonly (string | number)[])[]) => list.map(cells => `| ${cells.join(" | ")} |`)
  return `${[
    `# ${title}`,
    "",
    `Real PostgreSQL, Redis and processes on one machine; clients reach them through a proxy that breaks on demand. Again with \`npm run chaos -- --seconds ${result.seconds} --seed ${result.seed}\`.`,
    "",
    `**lost: ${of("P1")} · doubled: ${of("P2")} · out of order: ${of("P3")} · holes in sessions: ${of("P5")}**`,
    "",
    `![Time line](${picture})`,
    "",
    "| What clients saw | |",
    "|---|---|",
    ...rows([
      ["Sends acknowledged", figures.acked],
      ["Sends refused (4xx, as they should be)", figures.refused],
      ["Sends with an unknown outcome, tried again with the same nonce", figures.unknown],
      ["Time to the acknowledgement", `p50 ${figures.p50.toFixed(1)} ms, p99 ${figures.p99.toFixed(0)} ms`],
      ["/livez meanwhile, p95", `${figures.livez.toFixed(0)} ms`],
      [
        "How much slower than alone the machine made the run: mean, worst five seconds",
        `${figures.slowness.mean.toFixed(1)}, ${figures.slowness.worst.toFixed(1)}`,
      ],
      ["Events to readers", figures.events],
      ["Resumes", figures.resumed],
      ["INVALID_SESSION", figures.invalidated],
      ["Connections lost, by close code", [...figures.closes].map(([code, times]) => `${code}: ${times}`).join(", ")],
    ]),
    "",
    "| What the program counted | |",
    "|---|---|",
    ...rows([
      ["Shards taken over", total("takeOvers")],
      ["Shards handed over", total("handOvers")],
      ["Writes refused by the fence", total("refusedWrites")],
      ["Appends refused for their epoch", total("staleAppends")],
      ["Incarnations that found themselves over", total("incarnationsOver")],
      ["Commits with an unknown outcome", total("unknownOutcomes")],
      [
        "Resumes: same worker, another that lives, a dead one",
        `${total("resumesSameWorker")}, ${total("resumesOtherWorker")}, ${total("resumesDeadWorker")}`,
      ],
      ["Broken links in delivery logs", total("gaps")],
      ["Outbox rows published again", total("republished")],
    ]),
    "",
    "Clocks and readers have no time in the next table: they go on beside the others. What a worker counted in its last second before `kill -9` is lost with it.",
    "",
    "| What was done to it | Times | Of whom | Longest time without an acknowledgement in any channel |",
    "|---|---|---|---|",
    ...rows(
      outcomes.map(({ fault, times, skipped }) => [
        fault,
        skipped === undefined ? times : `skipped: ${skipped}`,
        [...(targets.get(fault) ?? [])].join("; ") || "–",
        gapOf.has(fault) ? `${(gapOf.get(fault)! / 1_000).toFixed(1)} s` : "–",
      ]),
    ),
    "",
    ...(schedule.left.length > 0 ? [`Not in a run of this length: ${schedule.left.join(", ")}.`, ""] : []),
    "| Promise | Findings |",
    "|---|---|",
    ...rows(Object.keys(checks).map(promise => [`${promise} ${promises[promise]}`, of(promise)])),
    "",
    ...missing.map(what => `- Missing: ${what}`),
    ...findings.slice(0, shown).map(({ promise, what }) => `- ${promise}: ${what}`),
  ]
    .join("\n")
    .trimEnd()}\n`
}
