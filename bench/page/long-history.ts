/** A channel with a long history: opening it, going to an old message, scrolling back from there. */
import type { Browser } from "playwright-core"
import type { Harness, Starling } from "../harness.ts"
import { placeOf } from "./places.ts"
import { Tab } from "./tab.ts"

export interface LongHistory {
  readonly messages: number
  /** Milliseconds until messages are on the page: of one that has just been loaded, from a message to another. */
  readonly openMs: number
  readonly jumpMs: number
  readonly scrolled: number
  readonly scrollMs: number
  readonly maxRows: number
  readonly before: { readonly heapMb: number; readonly nodes: number }
  readonly after: { readonly heapMb: number; readonly nodes: number }
}

export async function benchLongHistory(
  { harness, starling, browser }: { harness: Harness; starling: Starling; browser: Browser },
  { messages, scrolled, positions }: { messages: number; scrolled: number; positions: readonly string[] },
  say: (what: string) => void,
): Promise<LongHistory> {
  const reader = harness.population.authors[0]!
  const hash = await placeOf(harness.databaseUrl, reader.path.split("/")[4]!)
  say(`opening a channel of ${messages.toLocaleString("en")} messages`)
  const tab = await Tab.open(browser, starling.url, reader.token)
  const { page } = tab
  try {
    await page.locator(".dot.live").waitFor()
    const openMs = await took(async () => {
      await tab.go(hash)
      await page.locator(".message[id]").last().waitFor()
    })
    // In the middle, so that there is enough above it.
    const target = positions.toSorted((one, other) => (BigInt(one) < BigInt(other) ? -1 : 1))[positions.length >> 1]!
    const jumpMs = await took(async () => {
      await tab.go(`${hash}/${target}`)
      await page.locator(`#message-${target}.marked`).waitFor()
    })
    let before: LongHistory["before"] | undefined
    say(`scrolling back ${scrolled.toLocaleString("en")} messages`)
    const seen = new Set<string>()
    let maxRows = 0
    const scrollMs = await took(async () => {
      while (seen.size < scrolled) {
        const ids = await page.evaluate<string[]>(`(async () => {
          const scroller = document.querySelector(".scroller")
          const first = () => scroller.querySelector(".message[id]").id
          const before = first()
          scroller.scrollTop = 0
          const deadline = performance.now() + 10_000
          while (first() === before && performance.now() < deadline) await new Promise(requestAnimationFrame)
          return [...scroller.querySelectorAll(".message[id]")].map(({ id }) => id)
        })()`)
        const known = seen.size
        for (const id of ids) seen.add(id)
        if (seen.size === known) throw new Error("there is nothing above, though there should be")
        maxRows = Math.max(maxRows, ids.length)
        // As many as there ever are: from here on it has to stay as it is.
        if (seen.size > maxRows) before ??= await tab.held()
      }
    })
    const after = await tab.held()
    return { messages, openMs, jumpMs, scrolled: seen.size, scrollMs, maxRows, before: before ?? after, after }
  } finally {
    await tab.close()
  }
}

async function took(work: () => Promise<void>): Promise<number> {
  const began = performance.now()
  await work()
  return performance.now() - began
}
