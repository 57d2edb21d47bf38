import { correction, generate, mode, type Bitmap2D } from "lean-qr"
import { fail, unavailable } from "../contract/core/errors.ts"
import type { Content } from "../contract/core/registry.ts"

/** Loaded for the first picture: it is large, and most workers draw none. */
async function loadSharp() {
  const { default: sharp } = await import("sharp")
  // Pictures are made once and sent away; what libvips would keep of them, and its threads, are
  // better left to requests.
  sharp.cache(false)
  sharp.concurrency(1)
  return sharp
}

const side = { least: 10, usual: 200, most: 1000 }
/** Modules of white around a code, without which it is not found. */
const quietZone = 4
/** The most characters that any code takes: digits, in the largest one. */
const maxCharacters = 7_089
/**
 * To try all eight masks takes time on the event loop that grows with the text: longer ones get a
 * fixed mask, which reads as well.
 */
const maxCharactersToChoose = 500
const white = 255
const black = 0

/** Reads `WxH`; each side is brought into the bounds. */
export function sizeOf(text: string | undefined): { width: number; height: number } {
  const parts = /^(\d{1,9})x(\d{1,9})$/i.exec(text?.trim() ?? "")
  const within = (digits: string | undefined) =>
    parts ? Math.min(side.most, Math.max(side.least, Number(digits))) : side.usual
  return { width: within(parts?.[1]), height: within(parts?.[2]) }
}

/** Pictures drawn at once: threads are shared with password hashes. */
const maxConcurrent = 2
/** Requests that wait for that; more are told to come again. */
const maxWaiting = 32

/** A picture of a code that says `text`, at correction level L. */
export function createQrPictures() {
  let drawing = 0
  const waiting: (() => void)[] = []

  return async (...asked: Parameters<typeof draw>): Promise<Content> => {
    if (drawing >= maxConcurrent) {
      if (waiting.length >= maxWaiting) throw unavailable("too many pictures")
      await new Promise<void>(resolve => waiting.push(resolve))
    } else drawing++
    try {
      return await draw(...asked)
    } finally {
      const next = waiting.shift()
      if (next) next()
      else drawing--
    }
  }
}

async function draw(
  text: string,
  { size, format }: { size?: string | undefined; format?: string | undefined },
): Promise<Content> {
  if (text === "") throw fail("qr_data_required")
  const code = codeOf(text)
  const { width, height } = sizeOf(size)
  const modules = code.size + 2 * quietZone
  const pixels = Buffer.alloc(modules * modules, white)
  for (let y = 0; y < code.size; y++)
    for (let x = 0; x < code.size; x++) if (code.get(x, y)) pixels[(y + quietZone) * modules + x + quietZone] = black

  // Whole pixels for each module where they fit: their edges stay sharp.
  const side = Math.min(width, height)
  const drawn = side < modules ? side : modules * Math.floor(side / modules)
  const [left, top] = [Math.floor((width - drawn) / 2), Math.floor((height - drawn) / 2)]
  const sharp = await loadSharp()
  const picture = sharp(pixels, { raw: { width: modules, height: modules, channels: 1 } })
    .resize(drawn, drawn, { kernel: side < modules ? "cubic" : "nearest" })
    .extend({ left, right: width - drawn - left, top, bottom: height - drawn - top, background: "#fff" })
    .timeout({ seconds: 5 })
  const isPng = format === undefined || format === "png"
  const body = await (isPng ? picture.png() : picture.jpeg({ quality: 90 })).toBuffer()
  return {
    contentType: isPng ? "image/png" : "image/jpeg",
    body,
    headers: { "Cache-Control": "public, max-age=86400" },
  }
}

function codeOf(text: string): Bitmap2D {
  if (text.length > maxCharacters) throw fail("qr_data_too_long")
  try {
    return generate(mode.auto(text, { modes: [mode.numeric, mode.alphaNumeric, mode.ascii, mode.utf8] }), {
      minCorrectionLevel: correction.L,
      maxCorrectionLevel: correction.L,
      ...(text.length > maxCharactersToChoose && { mask: 0 }),
    })
  } catch (error) {
    // In words of its own: the text fits into no version of a code.
    if (error instanceof Error && error.message === "lean-qr error 4") throw fail("qr_data_too_long")
    throw error
  }
}
