/** Messages that arrive in the channel that is open, many a second. */
import type { Browser } from "playwright-core"
import type { Harness, Starling } from "../harness.ts"
import { quantile } from "../statistics.ts"
import { pause } from "../trials.ts"
import { placeOf } from "./places.ts"
import { Tab } from "./tab.ts"

export const perSecond = 100
/** Of the members so many write. */
export const authors = 100
const maxInFlight = 64

export interface StreamRun {
  readonly messages: number
  /** What was sent in time, in parts of what was meant to be. */
  readonly framesPerSecond: number
  /** Milliseconds from frame to frame. */
  readonly frameP50: number
  readonly frameP99: number
  readonly frameMax: number
  readonly longTasks: number
  readonly longestTaskMs: number
  /** Milliseconds of the main thread for each message, and of them. */
  readonly perMessageMs: number
  readonly scriptMs: number
  readonly styleMs: number
  readonly layoutMs: number
  readonly heapMb: number
  readonly nodes: number
}

export interface Stream {
  readonly idleFramesPerSecond: number
  readonly atStart: { readonly heapMb: number; readonly nodes: number }
  readonly runs: readonly StreamRun[]
}

export async function benchStream(
  { harness, starling, browser }: { harness: Harness; starling: Starling; browser: Browser },
  { runs, seconds }: { runs: number; seconds: number },
  say: (what: string) => void,
): Promise<Stream> {
  const [reader, ...senders] = harness.population.audience.posters
  const hash = await placeOf(harness.databaseUrl, reader!.path.split("/")[4]!)
  const post = async (i: number) => {
    const { path, token } = senders[i % authors]!
    const body = JSON.stringify({ content: `line ${i} of a busy channel, with **some** words and a \`name\` in it` })
    const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" }
    const answer = await fetch(`${starling.url}${path}`, { method: "POST", headers, body })
    if (!answer.ok) throw new Error(`a message was refused: ${answer.status} ${await answer.text()}`)
    await answer.arrayBuffer()
  }
  // As many as the page keeps, so that the first run is like the others.
  for (let i = 0; i < 400; i += 20) await Promise.all(Array.from({ length: 20 }, (_, k) => post(i + k)))
  const tab = await Tab.open(browser, starling.url, reader!.token)
  try {
    await tab.go(hash)
    await tab.page.locator(".message[id]").first().waitFor()
    await tab.page.locator(".dot.live").waitFor()
    // It opens at the first unread message, which is the first of all.
    await tab.page.keyboard.press("e")
    await tab.page.locator(".message[id]", { hasText: "line 399 of" }).waitFor()
    let sent = 400
    const stream = async (forSeconds: number) => {
      const from = sent
      const beganAt = performance.now()
      const open = new Set<Promise<void>>()
      for (; sent - from < forSeconds * perSecond; sent++) {
        const dueAt = beganAt + ((sent - from) * 1_000) / perSecond
        if (dueAt > performance.now()) await new Promise(resolve => setTimeout(resolve, dueAt - performance.now()))
        const one = post(sent).finally(() => open.delete(one))
        open.add(one)
        if (open.size >= maxInFlight) await Promise.race(open)
      }
      await Promise.all(open)
      const late = performance.now() - beganAt - forSeconds * 1_000
      if (late > 1_000) throw new Error(`the server, or this machine, was ${Math.round(late)} ms late`)
      await tab.page.locator(".message[id]", { hasText: `line ${sent - 1} of` }).waitFor()
      return sent - from
    }
    say("warming up")
    await stream(3)
    await pause(2)
    const idle = await tab.watchFrames()
    await pause(3)
    const idleFrames = (await idle()).frames
    const atStart = await tab.held()
    const found: StreamRun[] = []
    for (let run = 0; run < runs; run++) {
      say(`${perSecond} messages a second for ${seconds} s, ${run + 1} of ${runs}`)
      const before = await tab.usage()
      const watched = await tab.watchFrames()
      const messages = await stream(seconds)
      const { frames, longTasks } = await watched()
      const after = await tab.usage()
      const perMessage = (part: keyof typeof after) => (after[part] - before[part]) / messages
      found.push({
        messages,
        framesPerSecond: rate(frames),
        frameP50: quantile(frames, 0.5),
        frameP99: quantile(frames, 0.99),
        frameMax: Math.max(...frames),
        longTasks: longTasks.length,
        longestTaskMs: Math.max(0, ...longTasks),
        perMessageMs: perMessage("taskMs"),
        scriptMs: perMessage("scriptMs"),
        styleMs: perMessage("styleMs"),
        layoutMs: perMessage("layoutMs"),
        ...(await tab.held()),
      })
    }
    return { idleFramesPerSecond: rate(idleFrames), atStart, runs: found }
  } finally {
    await tab.close()
  }
}

const rate = (frames: readonly number[]) => (frames.length * 1_000) / frames.reduce((sum, ms) => sum + ms, 0)
