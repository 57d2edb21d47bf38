/** A stock Firefox for tests, spoken to in WebDriver BiDi: the few commands that a story needs. */
import { spawn, type ChildProcess } from "node:child_process"
import { once } from "node:events"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { onTestFinished } from "vitest"
import { WebSocket } from "ws"
// @ts-expect-error: plain JavaScript, as it runs before anything is installed
import { installPackages, isOnPath } from "../../scripts/prepare.mjs"
import { until } from "./until.ts"

const names = ["firefox-esr", "firefox"]
const find = (): string | undefined => names.find(name => isOnPath(name))
const startWithinMs = 60_000
const commandWithinMs = 30_000

/** It is to speak to nobody but the page. */
const preferences = `user_pref("app.normandy.enabled", false);
user_pref("app.update.enabled", false);
user_pref("browser.safebrowsing.downloads.enabled", false);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
user_pref("services.settings.server", "data:,");
`

interface Answer {
  readonly id: number
  readonly type: "success" | "error"
  readonly result?: unknown
  readonly message?: string
}

export class FirefoxTab {
  readonly #socket: WebSocket
  readonly #waiting = new Map<number, (answer: Answer) => void>()
  #context = ""
  #lastId = 0

  private constructor(socket: WebSocket) {
    this.#socket = socket
    socket.on("message", frame => {
      const answer = JSON.parse((frame as Buffer).toString()) as Answer
      this.#waiting.get(answer.id)?.(answer)
      this.#waiting.delete(answer.id)
    })
  }

  /** Ends with the test. A machine without Firefox that cannot install one skips it. */
  static async open(skip: (why: string) => never): Promise<FirefoxTab> {
    if (find() === undefined) await installPackages(["firefox-esr"], () => find() !== undefined)
    const program = find()
    if (program === undefined) return skip("no Firefox on this machine, and none could be installed")
    const profile = await mkdtemp(join(tmpdir(), "starling-firefox-"))
    await writeFile(join(profile, "user.js"), preferences)
    const words = ["--headless", "--no-remote", "--profile", profile, "--remote-debugging-port=0", "about:blank"]
    const child = spawn(program, words, { stdio: ["ignore", "ignore", "pipe"], env: { ...process.env, HOME: profile } })
    onTestFinished(async () => {
      await ended(child)
      await rm(profile, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 })
    })
    let said = ""
    child.stderr.setEncoding("utf8").on("data", (text: string) => (said = (said + text).slice(-20_000)))
    const address = () => /BiDi listening on (ws:\S+)/.exec(said)?.[1]
    await until("Firefox listens", () => address() !== undefined || child.exitCode !== null, {
      timeoutMs: startWithinMs,
    })
    const url = address()
    if (url === undefined) throw new Error(`Firefox ended: ${said}`)
    const socket = new WebSocket(`${url}/session`)
    await once(socket, "open")
    const tab = new FirefoxTab(socket)
    await tab.#ask("session.new", { capabilities: {} })
    const { contexts } = await tab.#ask<{ contexts: { context: string }[] }>("browsingContext.getTree", { maxDepth: 0 })
    tab.#context = contexts[0]!.context
    return tab
  }

  async #ask<T>(method: string, params: object): Promise<T> {
    const id = ++this.#lastId
    const answer = await new Promise<Answer>((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`Firefox does not answer ${method}`)), commandWithinMs)
      this.#waiting.set(id, found => {
        clearTimeout(late)
        resolve(found)
      })
      this.#socket.send(JSON.stringify({ id, method, params }))
    })
    if (answer.type === "error") throw new Error(`${method}: ${answer.message}`)
    return answer.result as T
  }

  async goto(url: string): Promise<void> {
    await this.#ask("browsingContext.navigate", { context: this.#context, url, wait: "complete" })
  }
  async reload(): Promise<void> {
    await this.#ask("browsingContext.reload", { context: this.#context, wait: "complete" })
  }

  /** Of what can be JSON. */
  async evaluate<T>(expression: string): Promise<T> {
    const { result, exceptionDetails } = await this.#ask<{
      result?: { value?: string }
      exceptionDetails?: { text: string }
    }>("script.evaluate", {
      expression: `(async () => JSON.stringify((await (${expression})) ?? null))()`,
      target: { context: this.#context },
      awaitPromise: true,
    })
    if (exceptionDetails) throw new Error(exceptionDetails.text)
    return JSON.parse(result!.value!) as T
  }

  /** Until it holds; a page that is being loaded has no answer yet. */
  async until(what: string, expression: string): Promise<void> {
    await until(what, () => this.evaluate<boolean>(`Boolean(${expression})`).catch(() => false), {
      timeoutMs: 60_000,
      everyMs: 100,
    })
  }

  /** Presses where the middle of it is, once it is there. */
  async click(selector: string): Promise<void> {
    const element = `document.querySelector(${JSON.stringify(selector)})`
    await this.until(`there is ${selector}`, element)
    const { x, y } = await this.evaluate<{ x: number; y: number }>(`(({ x, y, width, height }) =>
      ({ x: Math.round(x + width / 2), y: Math.round(y + height / 2) }))(${element}.getBoundingClientRect())`)
    const moves = [
      { type: "pointerMove", x, y },
      { type: "pointerDown", button: 0 },
      { type: "pointerUp", button: 0 },
    ]
    const actions = [{ type: "pointer", id: "mouse", actions: moves }]
    await this.#ask("input.performActions", { context: this.#context, actions })
  }

  /** With the keyboard, into what has the focus. */
  async type(text: string): Promise<void> {
    const keys = Array.from(text).flatMap(value => [
      { type: "keyDown", value },
      { type: "keyUp", value },
    ])
    const actions = [{ type: "key", id: "keyboard", actions: keys }]
    await this.#ask("input.performActions", { context: this.#context, actions })
  }
}

/** As WebDriver writes it. */
export const enter = "\uE007"

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const over = once(child, "exit")
  child.kill("SIGTERM")
  const late = setTimeout(() => child.kill("SIGKILL"), 5_000)
  await over
  clearTimeout(late)
}
