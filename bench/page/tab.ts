import type { Browser, CDPSession, Page } from "playwright-core"

/** What a tab has used so far, and what it holds. */
export interface Usage {
  /** Milliseconds of its main thread: all tasks, and of them scripts, styles and layout. */
  readonly taskMs: number
  readonly scriptMs: number
  readonly styleMs: number
  readonly layoutMs: number
}

/** A tab of the page in which somebody is signed in, with what Chromium knows of its cost. */
export class Tab {
  readonly page: Page
  readonly #devtools: CDPSession

  static async open(browser: Browser, url: string, token: string): Promise<Tab> {
    const context = await browser.newContext({ viewport: { width: 1280, height: 860 } })
    await context.addInitScript(`localStorage.setItem("starling.app.token", ${JSON.stringify(token)})`)
    const page = await context.newPage()
    page.setDefaultTimeout(60_000)
    await page.goto(`${url}/app`)
    const devtools = await context.newCDPSession(page)
    await devtools.send("Performance.enable")
    return new Tab(page, devtools)
  }

  private constructor(page: Page, devtools: CDPSession) {
    this.page = page
    this.#devtools = devtools
  }

  close(): Promise<void> {
    return this.page.context().close()
  }

  async go(hash: string): Promise<void> {
    await this.page.evaluate(`location.hash = ${JSON.stringify(hash)}`)
  }

  async usage(): Promise<Usage> {
    const { metrics } = await this.#devtools.send("Performance.getMetrics")
    const ms = (name: string) => (metrics.find(one => one.name === name)?.value ?? NaN) * 1_000
    return {
      taskMs: ms("TaskDuration"),
      scriptMs: ms("ScriptDuration"),
      styleMs: ms("RecalcStyleDuration"),
      layoutMs: ms("LayoutDuration"),
    }
  }

  /** After the garbage is collected: megabytes of the heap, and nodes of the document that are kept. */
  async held(): Promise<{ heapMb: number; nodes: number }> {
    await this.#devtools.send("HeapProfiler.collectGarbage")
    const { usedSize } = await this.#devtools.send("Runtime.getHeapUsage")
    const { nodes } = await this.#devtools.send("Memory.getDOMCounters")
    return { heapMb: usedSize / 1_048_576, nodes }
  }

  /** Watches frames and long tasks until the answer is called. */
  async watchFrames(): Promise<() => Promise<{ frames: number[]; longTasks: number[] }>> {
    await this.page.evaluate(`(() => {
      const seen = window.benchFrames = { at: [], longTasks: [], isOver: false }
      const note = at => {
        seen.at.push(at)
        if (!seen.isOver) requestAnimationFrame(note)
      }
      requestAnimationFrame(note)
      new PerformanceObserver(list => {
        if (!seen.isOver) for (const { duration } of list.getEntries()) seen.longTasks.push(duration)
      }).observe({ type: "longtask" })
    })()`)
    return async () => {
      const { at, longTasks } = await this.page.evaluate<{ at: number[]; longTasks: number[] }>(
        `(benchFrames.isOver = true, benchFrames)`,
      )
      return { frames: at.slice(1).map((time, i) => time - at[i]!), longTasks }
    }
  }
}
