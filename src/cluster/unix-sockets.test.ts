import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdir, mkdtemp, readdir, rm, stat, writeFile } from "node:fs/promises"
import { connect } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import fc from "fast-check"
import { test as plain, expect } from "vitest"
import type { Connection } from "./socket-road.ts"
import { makeSocketFolder } from "../std/socket-folder.ts"
import { socketPath, UnixSockets } from "./unix-sockets.ts"

const test = plain.extend<{ parent: string }>({
  // oxlint-disable-next-line no-empty-pattern -- vitest reads the pattern
  parent: async ({}, use) => {
    const parent = await mkdtemp(join(tmpdir(), "starling-unix-"))
    await use(parent)
    await rm(parent, { recursive: true, force: true })
  },
})

const maxFrameBytes = 300_000

async function pairIn(folder: string) {
  const sockets = new UnixSockets({ folder, self: "there", maxFrameBytes })
  const accepted = new Promise<Connection>((resolve, reject) => {
    sockets.listen(resolve).catch(reject)
  })
  const from = new UnixSockets({ folder, self: "here", maxFrameBytes })
  // It listens once `listen` has been called and the loop has turned.
  await new Promise(resolve => setImmediate(resolve))
  const here = await from.connect("there")
  return { here, there: await accepted, close: () => sockets.close() }
}

const ended = (connection: Connection) => new Promise<void>(resolve => (connection.onEnd = resolve))

test("frames of any text and length come whole and in order", async ({ parent }) => {
  const { here, there, close } = await pairIn(parent)
  const frame = fc.oneof(
    fc.string({ unit: "grapheme" }),
    fc.nat({ max: 70_000 }).map(n => "ü".repeat(n)),
  )
  await fc.assert(
    fc.asyncProperty(fc.array(frame, { maxLength: 12 }), async frames => {
      const got: string[] = []
      const all = new Promise<void>(resolve => {
        there.onFrame = text => (text === "over" ? resolve() : void got.push(text))
      })
      for (const text of frames) here.send(text)
      here.send("over")
      await all
      expect(got).toEqual(frames)
    }),
    { numRuns: 60 },
  )
  const gone = ended(there)
  here.send("last")
  const last: string[] = []
  there.onFrame = text => last.push(text)
  here.end()
  await gone
  expect(last).toEqual(["last"])
  close()
})

test("a frame that comes in pieces waits for its rest; one that is too long ends the connection", async ({
  parent,
}) => {
  const sockets = new UnixSockets({ folder: parent, self: "there", maxFrameBytes })
  const got: string[] = []
  const isOver = new Promise<void>(resolve => {
    sockets
      .listen(connection => {
        connection.onFrame = text => got.push(text)
        connection.onEnd = resolve
      })
      .catch(() => {})
  })
  await new Promise(resolve => setImmediate(resolve))
  const socket = connect({ path: socketPath(parent, "there") })
  await once(socket, "connect")
  socket.setNoDelay(true)
  for (const byte of Buffer.from([3, 0, 0, 0, 97, 98, 99, 1, 0, 0, 0, 100, 255, 255, 255, 255])) {
    socket.write(Buffer.from([byte]))
    await new Promise(resolve => setImmediate(resolve))
  }
  await isOver
  expect(got).toEqual(["abc", "d"])
  socket.destroy()
  sockets.close()
})

test("nobody listens at the name of a worker that has gone, or was never there", async ({ parent }) => {
  const { here, there, close } = await pairIn(parent)
  const gone = ended(here)
  there.destroy()
  await gone
  close()
  const from = new UnixSockets({ folder: parent, self: "here", maxFrameBytes })
  await expect(from.connect("there")).rejects.toThrow(/ENOENT|ECONNREFUSED/)
  await expect(from.connect("elsewhere")).rejects.toThrow(/ENOENT/)
})

test("the folder is for this user alone; those of killed primaries are removed, those in use and strangers' files stay", async ({
  parent,
}) => {
  const child = spawn(process.execPath, ["-e", ""])
  await once(child, "exit")
  const [left, used, running] = [`${child.pid}-left`, `${child.pid}-used`, `${process.ppid}-runs`].map(name =>
    join(parent, `starling-sockets-${name}`),
  ) as [string, string, string]
  for (const folder of [left, used, running]) await mkdir(folder)
  await writeFile(join(left, "nobody"), "")
  await writeFile(join(parent, "starling-sockets"), "")
  const neighbour = new UnixSockets({ folder: used, self: "there", maxFrameBytes })
  await neighbour.listen(connection => connection.destroy())

  const folder = await makeSocketFolder(parent)
  expect((await stat(folder)).mode & 0o777).toBe(0o700)
  expect((await readdir(parent)).map(name => join(parent, name)).sort()).toEqual(
    [folder, used, running, join(parent, "starling-sockets")].sort(),
  )
  neighbour.close()

  const deep = join(parent, "x".repeat(60))
  await mkdir(deep)
  await expect(makeSocketFolder(deep)).rejects.toThrow(/too long/)
  expect(await readdir(deep)).toEqual([])
})
