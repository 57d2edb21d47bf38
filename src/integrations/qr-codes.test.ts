import { expect, test } from "vitest"
import { Failure } from "../contract/core/errors.ts"
import { createQrPictures, sizeOf } from "./qr-codes.ts"

test("sizes are brought into their bounds, and what is none is the usual one", () => {
  for (const [text, width, height] of [
    [undefined, 200, 200],
    ["", 200, 200],
    ["300x150", 300, 150],
    [" 300X150 ", 300, 150],
    ["1x5000", 10, 1000],
    ["0x0", 10, 10],
    ["300", 200, 200],
    ["300x", 200, 200],
    ["-1x20", 200, 200],
    ["1e3x20", 200, 200],
    ["9999999999x20", 200, 200],
  ] as const)
    expect([text, sizeOf(text)]).toEqual([text, { width, height }])
})

test("few are drawn at once, some wait, and more are told to come again", async () => {
  const picture = createQrPictures()
  const outcomes = await Promise.allSettled(Array.from({ length: 40 }, (_, i) => picture(`text ${i}`, {})))
  const refused = outcomes.flatMap(outcome => (outcome.status === "rejected" ? [outcome.reason as unknown] : []))
  expect(refused).toHaveLength(6)
  for (const error of refused) expect(error).toMatchObject({ code: "unavailable" })
  // A failed one held its slot no longer than the others.
  await expect(picture("", {})).rejects.toBeInstanceOf(Failure)
  expect((await picture("again", { format: "jpeg" })).contentType).toBe("image/jpeg")
})
