/** What signals ask of the program: the configuration again, other processes, its end. */
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { onTestFinished } from "vitest"
import { operatorOf } from "../kit/operator.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

test("SIGHUP and SIGUSR2 read CONFIG_FILE again; SIGTERM gives load balancers DRAIN_GRACE seconds to notice", async ({
  cluster,
}) => {
  const folder = await mkdtemp(join(tmpdir(), "starling-signals-"))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const file = join(folder, "policy.json")
  const write = (policy: object) => writeFile(file, JSON.stringify(policy))
  await write({ server_name: "First", log_level: "warn" })
  const processes = await cluster.processes(1, { CONFIG_FILE: file, DRAIN_GRACE: "3", STARLING_VOICE_TURN_TTL: "700" })
  const title = async () =>
    ((await (await fetch(`${processes.url}/openapi.json`)).json()) as { info: { title: string } }).info.title
  const says = (where: "stdout" | "stderr", what: string) =>
    until(`${where} has ${what}`, () => processes[where]().includes(what))
  expect(await title()).toBe("First")

  // At once what can change at once, in every process; the rest is named.
  await write({ server_name: "Second", log_level: "info", voice_turn_ttl: 800 })
  processes.kill(processes.pid, "SIGHUP")
  await says("stdout", "the configuration was read again: log level info; with the next rolling restart")
  expect(processes.stdout()).toMatch(/\(kill -USR2 \d+\) also server_name\n/) // the environment beats the other
  expect(processes.stderr()).not.toContain("state of the service")
  await operatorOf(cluster).setState({ state: "restarting" })
  await says("stderr", "state of the service")
  expect(await title()).toBe("First")

  // A file that is wrong changes nothing, whichever signal it was.
  await write({ server_name: "", log_level: "loud" })
  processes.kill(processes.pid, "SIGHUP")
  await says("stderr", "configuration not read again; everything stays as it is")
  await says("stderr", `${file}: log_level:`)
  const before = await processes.workers()
  processes.kill(processes.pid, "SIGUSR2")
  await says("stderr", "The configuration has 2 problems")
  expect(await processes.workers()).toEqual(before)

  await write({ server_name: "Third", log_level: "error" })
  processes.kill(processes.pid, "SIGUSR2")
  await says("stdout", "every process has been replaced")
  expect(await title()).toBe("Third")

  // Told by balancers' checks, not by refusing anybody.
  const readiness = async () => {
    const answer = await fetch(`${processes.url}/readyz`)
    return { status: answer.status, body: await answer.text() }
  }
  expect(await readiness()).toMatchObject({ status: 200 })
  processes.kill(processes.pid, "SIGTERM")
  await until("readyz is 503", async () => (await readiness()).status === 503)
  expect((await readiness()).body).toContain('"ending":"failing"')
  expect((await fetch(`${processes.url}/health`)).status).toBe(200)
  expect(await title()).toBe("Third")
  expect(await processes.ended).toBe(0)
})

test("a second SIGTERM ends the grace, in good order", async ({ cluster }) => {
  const processes = await cluster.processes(1, { DRAIN_GRACE: "600" })
  processes.kill(processes.pid, "SIGTERM")
  await until("the grace begins", () => processes.stdout().includes("ending in 600 s"))
  processes.kill(processes.pid, "SIGTERM")
  expect(await processes.ended).toBe(0)
  expect(processes.stdout()).toContain("ended")
})
