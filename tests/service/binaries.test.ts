/** The binaries of uWebSockets.js are those that the repository names: others are neither built with nor started. */
import { execFile } from "node:child_process"
import { createHash } from "node:crypto"
import { appendFile, copyFile, cp, mkdir, mkdtemp, readFile, readdir, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { expect, onTestFinished, test } from "vitest"
// @ts-expect-error: plain JavaScript, as it runs before anything is installed
import { faultOfBinaries, ownBinary } from "../../scripts/uwebsockets.mjs"

const project = join(import.meta.dirname, "../..")
const installed = join(project, "node_modules", "uWebSockets.js")

test("the list names every binary that is installed, and each is what it says", async () => {
  const list = await readFile(join(project, "scripts", "uwebsockets.sha256"), "utf8")
  const listed = Array.from(list.matchAll(/^[0-9a-f]{64} {2}(\S+)$/gm), ([, name]) => name)
  const found = (await readdir(installed)).filter(name => name.endsWith(".node"))
  expect(new Set(listed)).toEqual(new Set(found))
  expect(faultOfBinaries(installed)).toBeUndefined()
})

test("a build and a start refuse a binary that differs by one byte, and one that the list does not name", async () => {
  const folder = await mkdtemp(join(tmpdir(), "starling-binaries-"))
  onTestFinished(() => rm(folder, { recursive: true }))
  const modules = join(folder, "node_modules", "uWebSockets.js")
  await mkdir(modules, { recursive: true })
  await mkdir(join(folder, "scripts"))
  for (const name of ["build", "start", "prepare", "uwebsockets"])
    await copyFile(join(project, "scripts", `${name}.mjs`), join(folder, "scripts", `${name}.mjs`))
  await cp(join(project, "scripts", "uwebsockets.sha256"), join(folder, "scripts", "uwebsockets.sha256"))
  await copyFile(join(installed, ownBinary), join(modules, ownBinary))
  const lock = JSON.stringify({ packages: {} })
  await writeFile(join(folder, "package-lock.json"), lock)
  await writeFile(join(folder, "node_modules", ".package-lock.json"), lock)

  const env = { ...process.env, REDIS_URL: "redis://127.0.0.1:1" }
  const said = (script: string) =>
    promisify(execFile)(process.execPath, [join(folder, "scripts", `${script}.mjs`)], { env }).then(
      ({ stdout }) => stdout,
      (error: { stdout: string; stderr: string }) => error.stdout + error.stderr,
    )
  // There is nothing to build here: that it comes so far is all.
  expect(await said("build")).toContain("bundle.mjs")
  const refusal = `${ownBinary} is not the file that scripts/uwebsockets.sha256 names`

  await copyFile(join(modules, ownBinary), join(modules, "uws_linux_x64_999.node"))
  expect(await said("build")).toContain("uws_linux_x64_999.node is not the file")
  await rm(join(modules, "uws_linux_x64_999.node"))

  await appendFile(join(modules, ownBinary), "\n")
  expect(await said("build")).toContain(refusal)

  // dist/ is current as far as anybody can see, so that nothing is built.
  await mkdir(join(folder, "dist", "src"), { recursive: true })
  const fingerprint = createHash("sha256").update(`package-lock.json ${lock.length}\n`).update(lock).digest("hex")
  await writeFile(join(folder, "dist", ".built"), fingerprint)
  await writeFile(join(folder, "dist", "src", "main.js"), `console.log("started")`)
  const start = await said("start")
  expect(start).toContain(refusal)
  expect(start).not.toContain("started")
  await copyFile(join(installed, ownBinary), join(modules, ownBinary))
  expect(await said("start")).toContain("started")
})
