/**
 * The signature of many texts: a bit for each group of three and of four characters that they hold.
 * Where one of a pattern's bits is not set, none of the texts holds the pattern; where all are, one
 * may. Different groups can have the same bit. Groups of four tell more, and of a pattern of three
 * characters nothing.
 */

/** So many at the most, whatever the texts are: two such rows fit a page of PostgreSQL. */
const maxBits = 3_960 * 8
const minBits = 128 * 8
/** Of so many bits about one is set, unless the texts need more than the most. */
const sparseness = 4
/** Bits of a pattern that are looked at. */
const looked = 16

/** Different groups are told apart by so many bits before they are brought to a signature's length. */
const placeBits = 17
const factor = 0x9e3779b1

const mixed = (before: number, text: string, at: number): number => Math.imul(before + text.charCodeAt(at), factor)

const threeAt = (text: string, at: number): number => mixed(mixed(mixed(0, text, at), text, at + 1), text, at + 2)
const placeOf = (group: number): number => group >>> (32 - placeBits)

/** A group's place is the remainder by its bits. Bits are counted as `get_bit` of PostgreSQL counts them. */
export function signatureOf(texts: string): Uint8Array {
  const places = new Uint8Array(2 ** placeBits / 8)
  let count = 0
  const put = (place: number) => {
    const bit = 1 << (place & 7)
    if ((places[place >> 3]! & bit) !== 0) return
    places[place >> 3]! |= bit
    count++
  }
  for (let at = 0; at + 3 <= texts.length; at++) {
    const three = threeAt(texts, at)
    put(placeOf(three))
    if (at + 4 <= texts.length) put(placeOf(mixed(three, texts, at + 3)))
  }
  const bits = 8 * Math.ceil(Math.min(maxBits, Math.max(minBits, count * sparseness)) / 8)
  const signature = new Uint8Array(bits / 8)
  for (let i = 0; i < places.length; i++)
    for (let left = places[i]!; left !== 0; left &= left - 1) {
      const place = (8 * i + 31 - Math.clz32(left & -left)) % bits
      signature[place >> 3]! |= 1 << (place & 7)
    }
  return signature
}

/** Places of a pattern, all of which are set where it is; none: it is too short for that. */
export function placesOf(pattern: string): number[] {
  const [threes, fours] = [new Set<number>(), new Set<number>()]
  for (let at = 0; at + 3 <= pattern.length; at++) {
    const three = threeAt(pattern, at)
    threes.add(placeOf(three))
    if (at + 4 <= pattern.length) fours.add(placeOf(mixed(three, pattern, at + 3)))
  }
  const some = evenly([...fours], looked)
  return [...new Set([...some, ...evenly([...threes], looked - some.length)])]
}

/** So many of them at the most. */
function evenly(places: readonly number[], most: number): number[] {
  const step = Math.max(1, places.length / most)
  return Array.from({ length: Math.min(places.length, most) }, (_, i) => places[Math.floor(i * step)]!)
}
