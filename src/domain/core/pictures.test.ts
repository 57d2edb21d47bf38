import fc from "fast-check"
import { expect, test } from "vitest"
import { animatedGif, animatedWebp, apng, gif, html, jpeg, png, pngOf, webp } from "../../../tests/kit/pictures.ts"
import { drawnPicture, initialsOf, pictureOf } from "./pictures.ts"

const every = async () => ({
  png: await png(3, 5),
  apng: apng(4),
  jpeg: await jpeg(16, 9),
  gif: await gif(7, 2),
  "animated gif": await animatedGif(6),
  webp: await webp(5, 4),
  "lossless webp": await webp(6, 3, true),
  "animated webp": await animatedWebp(10),
})

test("each kind is known by its content, with its size and whether it moves", async () => {
  const found = Object.fromEntries(Object.entries(await every()).map(([name, file]) => [name, pictureOf(file)]))
  const of = (kind: string, width: number, height: number, animated: boolean) => ({
    contentType: `image/${kind}`,
    width,
    height,
    animated,
  })
  expect(found).toEqual({
    png: of("png", 3, 5, false),
    apng: of("png", 4, 4, true),
    jpeg: of("jpeg", 16, 9, false),
    gif: of("gif", 7, 2, true),
    "animated gif": of("gif", 6, 6, true),
    webp: of("webp", 5, 4, false),
    "lossless webp": of("webp", 6, 3, false),
    "animated webp": of("webp", 10, 10, true),
  })
  expect(pictureOf(await pngOf(5000))).toMatchObject({ width: 8 })
  expect(await pngOf(5000)).toHaveLength(5000)
})

test("what is cut off anywhere is no picture", async () => {
  for (const [name, file] of Object.entries(await every())) {
    const read = Array.from({ length: file.length }, (_, length) => pictureOf(file.subarray(0, length)))
    expect([name, read.findIndex(one => one !== undefined)]).toEqual([name, -1])
  }
})

test("what is none of the four is none, whatever it says of itself", async () => {
  const small = await png()
  const broken = Buffer.from(small)
  broken[small.length - 20]! ^= 1
  for (const wrong of [
    Buffer.alloc(0),
    html,
    Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"/>'),
    Buffer.from("GIF89a<script>"),
    Buffer.concat([small.subarray(0, 8), html]),
    Buffer.from("RIFF\x04\0\0\0WEBPVP8 "),
    Buffer.from([0xff, 0xd8, 0xff, 0xd9]),
    broken,
  ])
    expect(pictureOf(wrong)).toBeUndefined()
})

test("any bytes at all are read to an end, and so is a picture with some of its bytes changed", async () => {
  const files = Object.values(await every())
  fc.assert(
    fc.property(
      fc.constantFrom(...files),
      fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 5 }),
      fc.uint8Array({ maxLength: 200 }),
      (file, changes, noise) => {
        const changed = Buffer.from(file)
        for (const [at, value] of changes) changed[at % changed.length] = value
        for (const bytes of [changed, Buffer.concat([file.subarray(0, 16), noise]), noise]) {
          const picture = pictureOf(bytes)
          if (picture) expect(picture.width * picture.height).toBeGreaterThan(0)
        }
      },
    ),
  )
})

test("a server without a picture gets its initials, and no name gets out of the drawing", () => {
  const initials = {
    "Starling Crew of Two": "SC",
    starling: "ST",
    "  x ": "X",
    "": "S",
    "ünal özil": "ÜÖ",
    "🐦 bird": "🐦B",
    "<b> &c": "<&",
  }
  for (const [name, letters] of Object.entries(initials)) expect(initialsOf(name)).toBe(letters)
  const drawn = drawnPicture(7, "<&\u0000\ufffe")
  expect(drawn).toContain(">&#60;&#38;</text></svg>")
  expect(drawn).toContain('fill="#4ade80"')
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), fc.nat(255), (name, byte) => {
      const [, text] = />([^<]*)<\/text><\/svg>$/.exec(drawnPicture(byte, initialsOf(name))) ?? []
      // eslint-disable-next-line no-control-regex
      expect(text).not.toMatch(/[<>"'\u0000-\u0008\ufffe\uffff]|&(?!#\d+;)/)
    }),
  )
})
