/** A browser that has never been here: until something is painted, and until one can write. */
import type { Browser } from "playwright-core"
import type { Harness, Starling } from "../harness.ts"
import { placeOf } from "./places.ts"

export interface FirstPaint {
  /** Milliseconds from the beginning of the navigation, to the first text: of a stranger, of who is signed in. */
  readonly strangerMs: number
  readonly memberMs: number
  /** Until the newest messages of a channel are there, and the field to write in. */
  readonly readyMs: number
  /** What came over the network until then, as it was sent. */
  readonly kilobytes: number
}

export async function benchFirstPaint(
  { harness, starling, browser }: { harness: Harness; starling: Starling; browser: Browser },
  { runs }: { runs: number },
): Promise<FirstPaint[]> {
  const reader = harness.population.audience.posters[0]!
  const hash = await placeOf(harness.databaseUrl, reader.path.split("/")[4]!)
  const open = async (token: string | undefined, place: string, ready: string) => {
    // A context of its own keeps nothing.
    const context = await browser.newContext({ viewport: { width: 1280, height: 860 } })
    try {
      if (token !== undefined)
        await context.addInitScript(`localStorage.setItem("starling.app.token", ${JSON.stringify(token)})`)
      const page = await context.newPage()
      page.setDefaultTimeout(60_000)
      await page.goto(`${starling.url}/app${place}`)
      const readyMs = await page
        .locator(ready)
        .first()
        .waitFor()
        .then(() => page.evaluate<number>("performance.now()"))
      return await page.evaluate<{ paintMs: number; readyMs: number; kilobytes: number }>(`(() => {
        const [paint] = performance.getEntriesByName("first-contentful-paint")
        const loaded = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
        return {
          paintMs: paint.startTime,
          readyMs: ${readyMs},
          kilobytes: loaded.reduce((sum, { transferSize }) => sum + transferSize, 0) / 1_000,
        }
      })()`)
    } finally {
      await context.close()
    }
  }
  // The server reads its files at the first visit.
  await open(undefined, "", "input")
  const found: FirstPaint[] = []
  for (let run = 0; run < runs; run++) {
    const stranger = await open(undefined, "", "input")
    const { paintMs, readyMs, kilobytes } = await open(reader.token, hash, ".composer textarea")
    found.push({ strangerMs: stranger.paintMs, memberMs: paintMs, readyMs, kilobytes })
  }
  return found
}
