/** A Chromium for tests: one of this machine, else one that is installed now. */
import { execFile } from "node:child_process"
import { accessSync, constants, existsSync } from "node:fs"
import { delimiter, join } from "node:path"
import { promisify } from "node:util"
import { chromium, type Browser, type BrowserContext, type Page } from "playwright-core"
import { beforeAll, onTestFinished } from "vitest"
// @ts-expect-error: plain JavaScript, as it runs before anything is installed
import { installPackages } from "../../scripts/prepare.mjs"

const run = promisify(execFile)
/** Milliseconds: a slow line needs minutes for it. */
const installWithinMs = 10 * 60_000

const names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]

function find(): string | undefined {
  for (const folder of (process.env["PATH"] ?? "").split(delimiter))
    for (const name of names)
      try {
        accessSync(join(folder, name), constants.X_OK)
        return join(folder, name)
      } catch {
        // not here
      }
  const downloaded = chromium.executablePath()
  return existsSync(downloaded) ? downloaded : undefined
}

async function install(): Promise<void> {
  if (await installPackages(["chromium"], () => find() !== undefined)) return
  const cli = join("node_modules", "playwright-core", "cli.js")
  const words = [cli, "install", "chromium-headless-shell", "chromium"]
  await run(process.execPath, words, { timeout: installWithinMs }).catch(() => {})
}

/** @returns why there is none, where there is none */
export async function startBrowser(): Promise<Browser | string> {
  if (find() === undefined) await install()
  const executablePath = find()
  if (executablePath === undefined) return "no Chromium on this machine, and none could be installed"
  return chromium.launch({
    executablePath,
    args: [
      "--no-sandbox",
      // A microphone that beeps, and nobody who has to be asked for it.
      "--use-fake-device-for-media-stream",
      "--use-fake-ui-for-media-stream",
      // Machines without a network have no other address than 127.0.0.1; names of the local network need one.
      "--allow-loopback-in-peer-connection",
      "--disable-features=WebRtcHideLocalIpsWithMdns",
    ],
  })
}

export interface Tab {
  readonly page: Page
  readonly context: BrowserContext
  /** What the console said that it should not have. */
  readonly noise: string[]
}
type OpenTab = (skip: (why: string) => never, options?: Parameters<Browser["newContext"]>[0]) => Promise<Tab>

/** One browser for all tests of a file. @returns opens a tab of somebody's own, with nothing kept from others */
export function browserForFile(): OpenTab {
  let browser: Browser | string
  beforeAll(async () => {
    browser = await startBrowser()
    return async () => {
      if (typeof browser !== "string") await browser.close()
    }
  }, 15 * 60_000)
  return async (skip, options = {}) => {
    if (typeof browser === "string") {
      // Where every change is checked it may not be left out unnoticed.
      if (process.env["CI"]) throw new Error(browser)
      return skip(browser)
    }
    const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, ...options })
    onTestFinished(() => context.close())
    const page = await context.newPage()
    page.setDefaultTimeout(30_000)
    const noise: string[] = []
    page.on("console", message => void (["error", "warning"].includes(message.type()) && noise.push(message.text())))
    page.on("pageerror", error => noise.push(String(error)))
    return { page, context, noise }
  }
}
