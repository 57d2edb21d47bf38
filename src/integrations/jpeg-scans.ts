/** Second bytes of markers. */
const [startOfScan, endOfImage] = [0xda, 0xd9]
/** After these comes no length: restarts within a scan, one that means nothing, and a byte 0xff in a scan that is no marker. */
const isAlone = (marker: number): boolean => (marker >= 0xd0 && marker <= 0xd7) || marker <= 0x01

/**
 * How many scans a JPEG has (ITU-T T.81, annex B), counted up to `most`. Each goes over the whole picture, however few
 * bytes it has.
 */
export function scansOfJpeg(file: Uint8Array, most: number): number {
  let scans = 0
  for (let at = file.indexOf(0xff, 2); at >= 0 && at + 1 < file.length && scans < most;) {
    const marker = file[at + 1]!
    if (marker === endOfImage) break
    if (marker === startOfScan) scans++
    // A marker may be filled up with further bytes 0xff.
    const length = marker === 0xff ? 1 : isAlone(marker) ? 2 : 2 + ((file[at + 2]! << 8) | file[at + 3]!)
    at = file.indexOf(0xff, at + length)
  }
  return scans
}
