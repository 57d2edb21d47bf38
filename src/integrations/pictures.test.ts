import { crc32 } from "node:zlib"
import fc from "fast-check"
import sharp from "sharp"
import { expect, test } from "vitest"
import { pictureUses, type PictureUse } from "../contract/core/jobs.ts"
import {
  animatedGif,
  animatedWebp,
  apng,
  factsOf,
  gif,
  gifOf,
  html,
  jpeg,
  jpegOfScans,
  photo,
  png,
  pngClaiming,
  webp,
} from "../../tests/kit/pictures.ts"
import { createPictures } from "./pictures.ts"

const pictures = createPictures()
async function encode(bytes: Uint8Array, use: PictureUse) {
  const encoded = await pictures.encode(bytes, use, true)
  if (encoded === "long") throw new Error("it may take its time")
  return encoded
}
const every = async () => [
  await png(3, 5),
  apng(4),
  await jpeg(16, 9),
  await gif(7, 2),
  await animatedGif(6),
  await webp(5, 4),
  await webp(6, 3, true),
  await animatedWebp(10),
]

test("each kind is kept as what it is, with its frames; of a PNG with frames only a sticker keeps them", async () => {
  for (const file of await every()) {
    const encoded = await encode(file, "avatar")
    if ("refusal" in encoded) throw new Error(encoded.refusal)
    const [before, after] = [await factsOf(file), await factsOf(encoded.bytes)]
    expect(after).toEqual({ ...before, frames: 0 })
    expect(encoded).toMatchObject({
      content_type: `image/${before.format}`,
      width: before.width,
      height: before.height,
    })
    expect(encoded.animated).toBe(before.pages > 1 || before.format === "gif")
  }
  const sticker = await encode(apng(4), "sticker")
  expect(sticker).toMatchObject({ animated: true, width: 4, height: 4 })
  if ("refusal" in sticker) throw new Error(sticker.refusal)
  expect(await factsOf(sticker.bytes)).toEqual(await factsOf(apng(4)))
  expect(await encode(sticker.bytes, "sticker")).toMatchObject({ animated: true })
})

test("nothing but pixels is left of a photo, and they stand upright", async () => {
  const given = await photo(60, 40)
  const encoded = await encode(Buffer.concat([given, html]), "avatar")
  if ("refusal" in encoded) throw new Error(encoded.refusal)
  const { exif, icc, xmp, orientation, width, height } = await sharp(encoded.bytes).metadata()
  expect({ exif, icc, xmp, orientation, width, height }).toEqual({ width: 40, height: 60 })
  expect(Buffer.from(encoded.bytes).includes("somebody")).toBe(false)
  expect(Buffer.from(encoded.bytes).includes("<script>")).toBe(false)
})

test("what may not be what it is for, is damaged or is a bomb is refused by its header", async () => {
  const whole = await jpeg(64)
  for (const [use, file, refusal] of [
    ["emoji", whole, "invalid_file"],
    ["sticker", await animatedGif(), "invalid_file"],
    ["avatar", html, "invalid_file"],
    ["avatar", Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>'), "invalid_file"],
    ["avatar", whole.subarray(0, whole.length - 2), "invalid_file"],
    ["sticker", apng().subarray(0, 150), "invalid_file"],
    ["avatar", pngClaiming(30_000, 30_000), "picture_too_large"],
    ["avatar", pngClaiming(1, 60_000), "picture_too_large"],
    ["avatar", gifOf(3_000), "picture_too_large"],
    ["emoji", await png(1025, 1), "picture_too_large"],
    ["sticker", await png(2049, 1), "picture_too_large"],
  ] as const)
    expect([use, await encode(file, use)]).toEqual([use, { refusal }])
  // They were refused without their pixels, of which each would be 2.7 GB.
  const before = process.memoryUsage().rss
  for (let i = 0; i < 50; i++) await encode(pngClaiming(30_000, 30_000), "avatar")
  // Of these as well: a minute of a core each, or up to 860 MB for thumbnails.
  expect(await encode(jpegOfScans(7_000, 2_646), "avatar")).toEqual({ refusal: "picture_too_large" })
  for (const file of [jpegOfScans(7_000, 65), jpegOfScans(7_072, 2), interlaced(12_000)])
    expect(await pictures.lookAt(file, true)).toBeUndefined()
  expect(process.memoryUsage().rss - before).toBeLessThan(50_000_000)
  expect(await encode(jpegOfScans(200, 64), "avatar")).toMatchObject({ width: 200 })
  expect(await pictures.lookAt(jpegOfScans(200, 64), true)).toMatchObject({ width: 200 })
})

/** A PNG whose header says that it is interlaced. */
function interlaced(side: number): Buffer {
  const file = pngClaiming(side, side)
  file[28] = 1
  file.writeUInt32BE(crc32(file.subarray(12, 29)), 29)
  return file
}

test("any bytes at all, and any picture with some of its bytes changed, are encoded or refused", async () => {
  const files = await every()
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...pictureUses),
      fc.constantFrom(...files),
      fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 5 }),
      fc.uint8Array({ maxLength: 200 }),
      async (use, file, changes, noise) => {
        const changed = Buffer.from(file)
        for (const [at, value] of changes) changed[at % changed.length] = value
        for (const bytes of [changed, Buffer.concat([file.subarray(0, 16), noise]), noise]) {
          const encoded = await encode(bytes, use)
          if ("refusal" in encoded) expect(["invalid_file", "picture_too_large"]).toContain(encoded.refusal)
          else expect(encoded.width * encoded.height).toBeGreaterThan(0)
          await pictures.lookAt(bytes, true)
        }
      },
    ),
    { numRuns: 60 },
  )
})

test("what takes longer than most by its header is not done among the others", async () => {
  const moving = gifOf(100, 250)
  expect(await pictures.encode(moving, "avatar", false)).toBe("long")
  expect(await encode(moving, "avatar")).toMatchObject({ animated: true, width: 250 })
  expect(await pictures.encode(gifOf(10, 250), "avatar", false)).toMatchObject({ animated: true })
  // Its first frame is all that is looked at.
  expect(await pictures.lookAt(moving, false)).toMatchObject({ width: 250, height: 250 })
  expect(await pictures.encode(apng(1_500), "sticker", false)).toBe("long")
})
