import sharp from "sharp"
import { expect, test } from "vitest"
import { jpegOfScans, photo } from "../../tests/kit/pictures.ts"
import { scansOfJpeg } from "./jpeg-scans.ts"

/** A marker that has no length, one that is filled up, and one that is none, before each scan. */
const disguised = (file: Buffer) =>
  file
    .toString("latin1")
    .split(/(?=\xff\xda)/)
    .flatMap((part, i) => (i === 0 ? [part] : ["\xff\x01\xff\xff\xff\x00\xff\xd3\xff", part]))
    .map(part => Buffer.from(part, "latin1"))

test("scans are counted as decoders come to them, whatever other segments hold", async () => {
  const baseline = await photo(300, 200)
  const progressive = await sharp(baseline).jpeg({ progressive: true }).toBuffer()
  // What looks like scans is a preview within a segment, or stands behind the end.
  const preview = jpegOfScans(16, 80).subarray(0, 65_000)
  for (const [file, scans] of [
    [baseline, 1],
    [progressive, 10],
    [Buffer.concat([baseline, progressive]), 1],
    [jpegOfScans(64, 70, preview), 70],
    [jpegOfScans(64, 3, preview), 3],
    [jpegOfScans(16, 2_000), 100],
    // Between scans stand bytes that mean nothing.
    [Buffer.concat(disguised(jpegOfScans(16, 20))), 20],
    [baseline.subarray(0, 3), 0],
    [new Uint8Array(), 0],
  ] as const)
    expect(scansOfJpeg(file, 100)).toBe(scans)
})
