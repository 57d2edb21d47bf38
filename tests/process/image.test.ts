/** The image, as the Dockerfile makes it: small, with Node 24, as an ordinary user, its root read-only. */
import { execFile } from "node:child_process"
import { chmod, mkdir, mkdtemp, readdir, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { startEmbeddedRedis } from "../../src/cluster/embedded.ts"
import { freePort } from "../../src/std/child-server.ts"
import type { Cluster } from "../kit/cluster.ts"
import { requireCheckers, requireNode24, requirePrograms } from "../kit/companions.ts"
import { buildImages, parseDockerfile, startContainer, type Image } from "../kit/image.ts"
import { fileOf, png } from "../kit/pictures.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, test as plain } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const run = promisify(execFile)
const project = join(import.meta.dirname, "../..")

const test = plain.extend<{ folder: string }>({
  // oxlint-disable-next-line no-empty-pattern -- vitest reads the pattern
  folder: async ({}, use) => {
    const folder = await mkdtemp(join(tmpdir(), "starling-image-"))
    await chmod(folder, 0o755)
    await use(folder)
    await rm(folder, { recursive: true, force: true })
  },
})

test("hadolint has nothing to say about the Dockerfile", async ({ skip }) => {
  const checkers = await requireCheckers(skip)
  await run(join(checkers, "bin", "hadolint"), ["--failure-threshold", "style", join(project, "Dockerfile")])
})

test(
  "both targets hold little, and serve on Node 24 as an ordinary user with a read-only root",
  { timeout: 240_000 },
  async ({ folder, cluster, skip }) => {
    await requirePrograms(skip, "bwrap", "redis-server", "tini")
    const node = await requireNode24(skip)
    const stages = await parseDockerfile(join(project, "Dockerfile"))
    expect(stages.map(({ name }) => name)).toEqual(["build", "slim", "all-in-one"])
    const images = await buildImages(stages, folder, node)
    const [slim, whole] = [images.get("slim")!, images.get("all-in-one")!]
    for (const { base, user } of [slim, whole])
      expect({ base, user }).toEqual({ base: "node:24-trixie-slim", user: "1000:1000" })

    // What cannot be in one file, and what that needs; nothing of development.
    const modules = await readdir(join(slim.folder, "starling", "node_modules"))
    const wanted = "@img @phc argon2 detect-libc node-gyp-build semver sharp uWebSockets.js"
    expect(modules.toSorted().join(" ")).toBe(wanted)
    expect(await megabytes(join(slim.folder, "starling"))).toBeLessThan(50)
    expect(await megabytes(join(slim.folder, "starling", "node_modules"))).toBeLessThan(40)
    const binaries = await readdir(join(slim.folder, "starling", "node_modules", "uWebSockets.js"))
    expect(binaries.filter(name => name.endsWith(".node"))).toEqual([`uws_linux_${process.arch}_137.node`])
    expect(whole.packages).toEqual(["redis-server", "tini"])

    const quiet = { info() {}, warn() {}, error() {} }
    const redis = await startEmbeddedRedis({ dataDir: folder, log: quiet, appendonly: false })
    const services = { DATABASE_URL: cluster.databaseUrl, REDIS_URL: redis.url }
    try {
      await Promise.all([
        serve(cluster, slim, node, join(folder, "data"), services),
        serve(cluster, whole, node, join(folder, "data-of-all")),
      ])
    } finally {
      await redis.stop()
    }
  },
)

const megabytes = async (folder: string) => Number((await run("du", ["-sm", folder])).stdout.split("\t")[0])

/** Each native module does its work: passwords are hashed, a picture is encoded, a frame comes. */
async function serve(cluster: Cluster, image: Image, node: string, data: string, services = {}): Promise<void> {
  await mkdir(data)
  const env = { HOST: "127.0.0.1", PORT: String(await freePort()), METRICS_PORT: "0", LOG_LEVEL: "warn", WORKERS: "1" }
  const running = startContainer(image, node, data, { ...env, ...services })
  const endpoint = { url: `http://127.0.0.1:${env.PORT}` }
  let isOver = false
  const over = running.ended.then(() => (isOver = true))
  try {
    expect(await running.run("id", "-u")).toBe("1000")
    expect(await running.run("touch", "/starling/file")).toBe(1)
    expect(await running.run("node", "-p", "process.version")).toMatch(/^v24\./)
    expect(await running.run(...image.healthcheck)).toBe(1)
    await until("the server in the container is ready", () => isOver || running.stdout().includes("Ctrl-C ends it"))
    expect({ isOver, stderr: running.stderr() }).toMatchObject({ isOver: false })
    expect(await running.run(...image.healthcheck)).toBe("")

    const { ada, lin, channel } = await cluster.seed(at => sharedServer(at, endpoint))
    const inbox = await lin.listen(endpoint)
    const { avatar_url } = await ada.on(endpoint).putAvatar({ file: fileOf(await png(64)) })
    expect((await fetch(endpoint.url + avatar_url)).headers.get("content-type")).toMatch(/^image\//)
    // Latin-1 only: see wire-text.ts.
    const content = "Grüße, déjà vu"
    const { id, ...sent } = await ada.on(endpoint).createMessage({ channel_id: channel.id, content })
    expect(sent.content).toBe(content)
    expect(await inbox.next("MESSAGE_CREATE")).toMatchObject({ id, content })
    const page = await ada.on(endpoint).listMessages({ channel_id: channel.id })
    expect(page.find(message => message.id === id)?.content).toBe(content)
    const [, asset] = /src="(\/docs\/assets\/swagger[^"]+)"/.exec(await (await fetch(`${endpoint.url}/docs`)).text())!
    expect((await fetch(endpoint.url + asset)).status).toBe(200)
    inbox.drop()
  } catch (error) {
    await running.stop()
    throw error
  }
  expect(await running.stop()).toBe(0)
  await over
}
