/**
 * The floor of an upload of a picture: uWebSockets.js takes it in, sharp makes of it what Starling
 * does, with the same settings, and the result is written to a file. It looks at nobody, keeps no
 * row, and nothing is flushed to the disk.
 */
import { mkdtempSync } from "node:fs"
import { writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import uWS from "uWebSockets.js"
import { createPictures } from "../../src/integrations/pictures.ts"
import { reply, serve } from "./serve.ts"

const { encode } = createPictures()
const folder = mkdtempSync(join(tmpdir(), "starling-bare-"))
let files = 0

const app = uWS.App()

app.post("/pictures", (res, req) => {
  req.getHeader("authorization")
  res.onAborted(() => {
    res["gone"] = true
  })
  const pieces: Buffer[] = []
  const take = async () => {
    const encoded = await encode(Buffer.concat(pieces), "avatar", true)
    if (encoded === "long" || "refusal" in encoded) throw new Error("the picture is refused")
    await writeFile(join(folder, String(files++)), encoded.bytes)
    reply(res, { success: true, width: encoded.width, height: encoded.height })
  }
  res.onData((chunk, isLast) => {
    pieces.push(Buffer.from(new Uint8Array(chunk)))
    if (isLast)
      take().catch((cause: unknown) => {
        throw cause
      })
  })
})

serve(app)
