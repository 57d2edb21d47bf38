import sharp from "sharp"

/** Side lengths of what is compared: 8 rows of 8 differences between neighbours. */
const rows = 8
const columns = 9
const maxPixels = 64_000_000
const timeoutSeconds = 10

/**
 * Hashes pictures by what they look like, one at a time: each is read as a whole. A difference hash
 * (N. Krawetz, "Kind of Like That", 2013): the picture is made grey and 9 by 8 pixels small, and each
 * bit says whether a pixel is brighter than its right neighbour. Other sizes, formats and
 * compressions of a picture change few of the 64 bits. @returns 16 hex digits; empty for what cannot
 * be decoded, and where no bit is set, as of a single colour: too much looks like that
 */
export function createPerceptualHashing(): (read: () => Promise<Buffer | undefined>) => Promise<string> {
  // A picture is small work, and none is decoded twice: a core and no memory are kept for it.
  sharp.concurrency(1)
  sharp.cache(false)
  let last: Promise<unknown> = Promise.resolve()
  return read => {
    const hashed = last.then(async () => {
      const bytes = await read()
      return bytes ? perceptualHash(bytes) : ""
    })
    last = hashed.catch(() => {})
    return hashed
  }
}

async function perceptualHash(bytes: Buffer): Promise<string> {
  let pixels: Buffer
  try {
    pixels = await sharp(bytes, { limitInputPixels: maxPixels, pages: 1, failOn: "error", sequentialRead: true })
      .autoOrient()
      .flatten({ background: "#fff" })
      .greyscale()
      .resize(columns, rows, { fit: "fill" })
      .raw({ depth: "uchar" })
      .timeout({ seconds: timeoutSeconds })
      .toBuffer()
  } catch {
    return ""
  }
  let bits = 0n
  for (let row = 0; row < rows; row++)
    for (let column = 0; column < columns - 1; column++) {
      const at = row * columns + column
      bits = (bits << 1n) | (pixels[at]! > pixels[at + 1]! ? 1n : 0n)
    }
  return bits === 0n ? "" : bits.toString(16).padStart(16, "0")
}
