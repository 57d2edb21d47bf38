/**
 * `npm run bench -- page`: what the page at /app costs a reader's browser: the first visit, a channel of 1,000 members in which 100
 * messages a second arrive, a channel of 1,000,000 messages, and with `--minutes` what it holds by the minute. In
 * Chromium, without a window.
 */
import { startBrowser } from "../../tests/kit/browser.ts"
import type { Bench } from "../bench.ts"
import { plant } from "../history/pages.ts"
import { round, type About, type Line } from "../report.ts"
import { figure } from "../statistics.ts"
import { Stop } from "../stop.ts"
import { benchFirstPaint, type FirstPaint } from "./first-paint.ts"
import { benchLongHistory, type LongHistory } from "./long-history.ts"
import { benchMemory, defaultRate, type Memory } from "./memory.ts"
import { benchStream, perSecond, type Stream, type StreamRun } from "./stream.ts"

const parts = ["paint", "stream", "history", "memory"] as const
/** So long a run may be. */
const maxMinutes = 24 * 60
const members = 1_000

interface PageResults extends About {
  paint?: FirstPaint[]
  stream?: Stream
  history?: LongHistory
  memory?: Memory
}

export const page: Bench<(typeof parts)[number], PageResults> = {
  about: "what the page costs a browser: first paint, 100 messages a second, 1,000,000 messages, memory by the minute",
  parts,
  options: {
    messages: "how many the long channel has: 1000000",
    rate: "messages a second while memory is watched: 10, into five channels by turns; more go into one that stays open",
    minutes: "how long memory is watched: 2; given, and nothing else is asked for, that alone is measured",
  },
  plan({ only: asked, runs, isQuick, text, count, say }) {
    const minutes = count("minutes", isQuick ? 1 : 2, maxMinutes)
    const rate = count("rate", defaultRate, 1_000)
    const isMemoryAlone = text("minutes") !== undefined && text("only") === undefined
    const only: ReadonlySet<(typeof parts)[number]> = isMemoryAlone ? new Set(["memory"]) : asked
    const messages = count("messages", isQuick ? 20_000 : 1_000_000, 10_000_000)
    return {
      sizes: { audience: members, authors: 4, idlers: 0 },
      extent: { runs },
      async measure(harness, about) {
        const results: PageResults = about
        if (only.has("history")) say(`${messages.toLocaleString("en")} messages`)
        const channel = harness.population.authors[0]!.path.split("/")[4]!
        const positions = only.has("history") ? await plant(harness.databaseUrl, channel, messages) : []
        const starling = await harness.startStarling({ RATE_LIMITS: "off" })
        const browser = await startBrowser()
        if (typeof browser === "string") throw new Stop(browser)
        const close = harness.owned(() => browser.close())
        const what = { harness, starling, browser }
        if (only.has("paint")) results.paint = await benchFirstPaint(what, { runs })
        if (only.has("stream")) results.stream = await benchStream(what, { runs, seconds: isQuick ? 3 : 10 }, say)
        const extent = { messages, scrolled: isQuick ? 500 : 2_000, positions }
        if (only.has("history")) results.history = await benchLongHistory(what, extent, say)
        if (only.has("memory")) results.memory = await benchMemory(what, { minutes, rate }, say)
        await close()
        return results
      },
      lines: summarize,
    }
  },
}

const held = ({ heapMb, nodes }: { heapMb: number; nodes: number }) =>
  `${round(heapMb)} MB, ${nodes.toLocaleString("en")} nodes`

function summarize({ paint, stream, history, memory }: PageResults): Line[] {
  return [
    ...(paint ? paintLines(paint) : []),
    ...(stream ? streamLines(stream) : []),
    ...(history ? historyLines(history) : []),
    ...(memory ? memoryLines(memory) : []),
  ]
}

function paintLines(runs: readonly FirstPaint[]): Line[] {
  const of = (value: keyof FirstPaint) => round(figure(runs.map(run => run[value])).median)
  return [
    { work: "first paint of a browser that was never here", bare: "", starling: `${of("strangerMs")} ms` },
    {
      work: "… of somebody signed in: first paint / can be written in",
      bare: "",
      starling: `${of("memberMs")} / ${of("readyMs")} ms, ${of("kilobytes")} kB`,
    },
  ]
}

function memoryLines({ minutes, messages, rate, channels, heapMbPerHour, nodesPerHour }: Memory): Line[] {
  return [
    {
      work: `held after ${minutes.length} min, ${messages.toLocaleString("en")} messages at ${rate} a second, ${channels === 1 ? "the open channel" : "five channels by turns"}`,
      bare: `${held(minutes[0]!)} (after the first)`,
      starling: held(minutes.at(-1)!),
    },
    {
      work: "… what an hour adds",
      bare: "",
      starling: `${round(heapMbPerHour)} MB, ${round(nodesPerHour)} nodes`,
    },
  ]
}

function streamLines({ runs, atStart, idleFramesPerSecond }: Stream): Line[] {
  const of = (value: keyof StreamRun) => round(figure(runs.map(run => run[value])).median)
  return [
    {
      work: `frames a second while ${perSecond} messages a second arrive, ${members.toLocaleString("en")} members`,
      bare: `${round(idleFramesPerSecond)} (nothing arrives)`,
      starling: of("framesPerSecond"),
    },
    {
      work: "… from frame to frame, p50 / p99 / longest",
      bare: "",
      starling: `${of("frameP50")} / ${of("frameP99")} / ${of("frameMax")} ms`,
    },
    {
      work: "… tasks of more than 50 ms, and the longest",
      bare: "",
      starling: `${of("longTasks")}, ${of("longestTaskMs")} ms`,
    },
    {
      work: "… main thread for each message",
      bare: "",
      starling: `${of("perMessageMs")} ms (scripts ${of("scriptMs")}, styles ${of("styleMs")}, layout ${of("layoutMs")})`,
    },
    {
      work: `… held after ${runs.reduce((sum, run) => sum + run.messages, 0).toLocaleString("en")} messages`,
      bare: `${held(atStart)} (before)`,
      starling: held(runs.at(-1)!),
    },
  ]
}

function historyLines({ messages, openMs, jumpMs, scrolled, scrollMs, maxRows, before, after }: LongHistory): Line[] {
  return [
    {
      work: `a channel of ${messages.toLocaleString("en")} messages: opened`,
      bare: "",
      starling: `${round(openMs)} ms`,
    },
    { work: "… an old message shown", bare: "", starling: `${round(jumpMs)} ms` },
    {
      work: `… ${scrolled.toLocaleString("en")} messages scrolled back`,
      bare: "",
      starling: `${round(scrollMs / 1_000)} s, at most ${maxRows} on the page`,
    },
    { work: "… held after that", bare: `${held(before)} (once the page is full)`, starling: held(after) },
  ]
}
