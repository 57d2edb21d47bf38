/**
 * As little as a server can do with files: what comes is written to the disk, what is asked for is read
 * from it. It knows no users, keeps no row, does not look for the end of a form's part and takes
 * everything that is sent for the file. With "hash" as its second argument it computes SHA-256, too,
 * without which nobody can say what a file holds.
 */
import { createHash } from "node:crypto"
import { open } from "node:fs/promises"
import { join } from "node:path"
import uWS from "uWebSockets.js"
import type { HttpResponse } from "uWebSockets.js"
import { serve } from "./serve.ts"

const pieceBytes = 131_072
/** Where they are kept: its starter deletes that. */
const folder = process.argv[2]!
const isHashing = process.argv[3] === "hash"
let files = 0

/** The body goes to the disk as it comes, whole once it is answered. */
async function keep(res: HttpResponse): Promise<void> {
  let gone = false
  let wake: (() => void) | undefined
  let isLast = false
  const pieces: Buffer[] = []
  res.onAborted(() => {
    gone = isLast = true
    wake?.()
  })
  res.onData((chunk, last) => {
    if (chunk.byteLength > 0) pieces.push(Buffer.from(new Uint8Array(chunk)))
    isLast = last
    if (!last) res.pause()
    wake?.()
  })
  const name = String(files++)
  const file = await open(join(folder, name), "w")
  const hash = isHashing ? createHash("sha256") : undefined
  for (;;) {
    const piece = pieces.shift()
    if (piece) {
      hash?.update(piece)
      for (let at = 0; at < piece.length;) at += (await file.write(piece, at)).bytesWritten
    } else if (isLast) break
    else {
      const more = new Promise<void>(resolve => (wake = resolve))
      res.resume()
      await more
    }
  }
  await file.sync()
  await file.close()
  if (!gone) res.cork(() => res.end(JSON.stringify({ url: `/${name}`, hash: hash?.digest("hex") })))
}

/** The next piece is read when the one before is sent. */
async function give(res: HttpResponse, name: string): Promise<void> {
  const state = { isGone: false, isSent: false }
  let drained: (() => void) | undefined
  res.onAborted(() => {
    state.isGone = true
    drained?.()
  })
  res.onWritable(() => {
    drained?.()
    return true
  })
  const file = await open(join(folder, name), "r")
  const { size } = await file.stat()
  for (let from = 0; from < size && !state.isGone;) {
    const { buffer, bytesRead } = await file.read(Buffer.allocUnsafeSlow(pieceBytes), 0, pieceBytes, from)
    const offset = res.getWriteOffset()
    const put = (bytes: Uint8Array) => res.cork(() => ([state.isSent] = res.tryEnd(bytes, size)))
    put(buffer.subarray(0, bytesRead))
    while (!state.isSent && !state.isGone) {
      await new Promise<void>(resolve => (drained = resolve))
      if (state.isGone) break
      put(buffer.subarray(res.getWriteOffset() - offset, bytesRead))
    }
    from += bytesRead
  }
  await file.close()
}

const app = uWS.App()
app.post("/", res => {
  keep(res).catch(cause => process.stderr.write(`${String(cause)}\n`))
})
app.get("/:name", (res, req) => {
  give(res, req.getParameter(0) ?? "").catch(cause => process.stderr.write(`${String(cause)}\n`))
})
serve(app)
