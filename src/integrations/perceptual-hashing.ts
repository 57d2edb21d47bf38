import type { Sharp } from "sharp"

/** Side lengths of what is compared: 8 rows of 8 differences between neighbours. */
const rows = 8
const columns = 9

/**
 * Hashes a picture by what it looks like. A difference hash (N. Krawetz, "Kind of Like That", 2013): the
 * picture is made grey and 9 by 8 pixels small, and each bit says whether a pixel is brighter than its
 * right neighbour. Other sizes, formats and compressions of a picture change few of the 64 bits.
 * @returns 16 hex digits; empty where no bit is set, as of a single colour: too much looks like that
 */
export async function perceptualHash(picture: Sharp): Promise<string> {
  const pixels = await picture
    .flatten({ background: "#fff" })
    .greyscale()
    .resize(columns, rows, { fit: "fill" })
    .raw({ depth: "uchar" })
    .toBuffer()
  let bits = 0n
  for (let row = 0; row < rows; row++)
    for (let column = 0; column < columns - 1; column++) {
      const at = row * columns + column
      bits = (bits << 1n) | (pixels[at]! > pixels[at + 1]! ? 1n : 0n)
    }
  return bits === 0n ? "" : bits.toString(16).padStart(16, "0")
}
