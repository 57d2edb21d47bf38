import { createHash, randomBytes } from "node:crypto"
import { chmod, mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { onTestFinished } from "vitest"
import { createClient } from "../../client/rest.ts"
import { uploadInChunks } from "../../client/uploads.ts"
import { chunkBytes, routes } from "../../src/contract/messages/upload-sessions.ts"
import { send } from "../kit/exchange.ts"
import { chunksOf, uploadsOf } from "../kit/pictures.ts"
import { startProcesses, type Processes } from "../kit/processes.ts"
import { ownRedis } from "../kit/services.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const retry = { attempts: 400, firstMs: 20, maxMs: 300, jitter: 1 }
const chunks = 6

test("an upload goes on after its worker, the server, the page that sends it and the job that ends it are killed", async ({
  cluster,
}) => {
  const redis = await ownRedis()
  onTestFinished(() => redis.close())
  const dataDir = await mkdtemp(join(tmpdir(), "starling-uploads-"))
  await chmod(dataDir, 0o755)
  onTestFinished(() => rm(dataDir, { recursive: true, force: true }))
  const env = { WORKERS: "2", DATABASE_URL: cluster.databaseUrl, REDIS_URL: redis.url, DATA_DIR: dataDir }
  let program: Processes = await startProcesses(env)
  onTestFinished(() => program.stop())
  const { url } = program
  const killWorker = async (role: string) => {
    // The program may just be starting again.
    let pid: number | undefined
    const runs = async () => {
      const workers = await program.workers().catch(() => [])
      pid = workers.find(({ slot }) => slot.startsWith(role))?.pid
      return pid !== undefined
    }
    await until("such a worker runs", runs)
    program.kill(pid!, "SIGKILL")
  }
  const killEverything = async () => {
    const workers = await program.workers()
    for (const { pid } of [program, ...workers]) program.kill(pid, "SIGKILL")
    await program.ended
    await program.stop()
  }

  const ada = await cluster.person("ada", program)
  await cluster.sql`UPDATE users SET tier = 'staff' WHERE id = ${ada.id}`
  const { token } = await ada.signIn(program)
  const bytes = randomBytes((chunks - 1) * chunkBytes + 1_000)
  const source = new Blob([bytes])
  const granted: string[] = []
  const client = createClient(
    {
      baseUrl: url,
      token,
      checkReplies(route, status) {
        if (status === 200) granted.push(route.path)
      },
    },
    routes,
  )
  const chunksGranted = () => granted.filter(path => path === routes.uploadChunk.path).length
  const steps: number[] = []
  let sessionId: string | undefined
  const upload = (onSent: (count: number) => void, signal?: AbortSignal) =>
    uploadInChunks(client, {
      source,
      filename: "film.dat",
      maxConcurrent: 1,
      retry,
      ...(sessionId !== undefined && { sessionId }),
      ...(signal && { signal }),
      onSession: id => (sessionId = id),
      onProgress({ sent, total }) {
        expect(total).toBe(bytes.length)
        steps.push(sent)
        onSent(Math.ceil(sent / chunkBytes))
      },
    })

  // The page is closed after three chunks, and a worker has died meanwhile.
  const page = new AbortController()
  const deaths: Promise<unknown>[] = []
  await expect(
    upload(count => {
      if (count === 1) deaths.push(killWorker("web"))
      if (count === 3) page.abort(new Error("the page is closed"))
    }, page.signal),
  ).rejects.toThrow("the page is closed")
  await Promise.all(deaths)
  const before = chunksGranted()

  // Another goes on. The server dies under it and comes back; so does the job worker at the end.
  let restarted: Promise<unknown> | undefined
  const done = await upload(count => {
    if (count === 4)
      restarted ??= killEverything().then(async () => {
        program = await startProcesses({ ...env, PORT: new URL(url).port })
      })
    if (count === chunks) deaths.push(killWorker("job"))
  })
  await restarted
  await Promise.all(deaths)
  expect([done.size, done.hash]).toEqual([bytes.length, createHash("sha256").update(bytes).digest("hex")])
  expect(steps).toEqual(steps.toSorted((a, b) => a - b))
  // What had come was not sent again; of a chunk that was on its way when the server died the answer may be lost.
  expect(before).toBeGreaterThanOrEqual(3)
  expect(chunksGranted()).toBeLessThanOrEqual(chunks)
  const got = await send(program, done.url, { token })
  expect(Buffer.from(got.bytes).equals(bytes)).toBe(true)

  const again = await upload(() => {})
  expect(again).toEqual(done)
  expect(await cluster.sql`SELECT FROM uploads`).toHaveLength(1)
  // What the dead have left is noted, so that a sweep comes to it; all else is gone.
  const noted = async () =>
    (await cluster.sql<{ key: string }[]>`SELECT key FROM unused_files`).map(({ key }) => key.split("/")[1]!)
  await until("no file is there that nothing leads to", async () => {
    const names = new Set(await noted())
    const left = [...(await chunksOf({ dataDir })), ...(await uploadsOf({ dataDir }))]
    return left.filter(name => !names.has(name.replace(/\.part$/, ""))).length === 1
  })
})
