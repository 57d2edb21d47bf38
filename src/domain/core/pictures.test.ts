import fc from "fast-check"
import { expect, test } from "vitest"
import { animatedGif, animatedWebp, apng, gif, html, jpeg, png, webp } from "../../../tests/kit/pictures.ts"
import { drawnPicture, initialsOf, isTooMuch, lettersOf, pictureTypeOf } from "./pictures.ts"

test("a picture is known by its first bytes, whatever follows and whatever its sender says", async () => {
  for (const [type, files] of Object.entries({
    "image/png": [await png(3, 5), apng(4)],
    "image/jpeg": [await jpeg(16, 9)],
    "image/gif": [await gif(7, 2), await animatedGif(6)],
    "image/webp": [await webp(5, 4), await webp(6, 3, true), await animatedWebp(10)],
  }))
    for (const file of files) {
      expect(pictureTypeOf(file)).toBe(type)
      expect(pictureTypeOf(file.subarray(0, 16))).toBe(type)
      expect(pictureTypeOf(file.subarray(0, 2))).toBeUndefined()
    }
  for (const wrong of [
    Buffer.alloc(0),
    html,
    Buffer.from("<svg/>"),
    Buffer.from("GIF88a"),
    Buffer.from("RIFF\x04\0\0\0WAVE"),
  ])
    expect(pictureTypeOf(wrong)).toBeUndefined()
})

test("too wide, too many pixels, too many frames are too much; what is at a limit is not", () => {
  for (const [width, height, frames, expected] of [
    [16_384, 1, 1, false],
    [16_385, 1, 1, true],
    [1, 60_000, 1, true],
    [30_000, 30_000, 1, true],
    [10_000, 5_000, 1, false],
    [10_000, 5_001, 1, true],
    [1, 1, 1_000, false],
    [1, 1, 3_000, true],
    [1_000, 500, 100, false],
    [1_000, 500, 101, true],
  ] as const)
    expect(isTooMuch({ width, height, frames }, 16_384)).toBe(expected)
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
  for (const [name, letters] of [
    ["ada", "AD"],
    ["", "UC"],
    ["🐦x", "🐦X"],
  ] as const)
    expect(lettersOf(name)).toBe(letters)
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
