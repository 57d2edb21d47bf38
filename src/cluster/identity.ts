import { randomBytes } from "node:crypto"
import type { RedisKeys } from "./keys.ts"
import type { Redis } from "./redis.ts"

/** In a Redis Cluster each master can lose its keys alone. One value in each 64th of the slots is enough to see it. */
const parts = 64
const slots = 16_384

/**
 * Tells whether Redis still is the one that knew us: a random value stays until what it lay beside is lost.
 * @returns asks whether all is as it was at the first call
 */
export function identityWatch(redis: Redis, keys: RedisKeys): () => Promise<boolean> {
  const known = new Map<string, string | null>()
  const isSame = async (key: string): Promise<boolean> => {
    let value = await redis.get(key)
    if (value === null) {
      await redis.set(key, randomBytes(8).toString("hex"), "NX")
      value = await redis.get(key)
    }
    if (!known.has(key)) known.set(key, value)
    return known.get(key) === value
  }
  if (!redis.isCluster) return () => isSame(keys.identity)
  const places = spreadTags().map(keys.identityPart)
  return async () => {
    // A master that cannot be asked now is asked when it is back: it may have kept everything.
    const answers = await Promise.all(places.map(place => isSame(place).catch(() => true)))
    return !answers.includes(false)
  }
}

/** Hash tags, one for each part of the slots. */
function spreadTags(): string[] {
  const tags = new Map<number, string>()
  for (let i = 0; tags.size < parts; i++) {
    const part = Math.floor((slotOf(String(i)) * parts) / slots)
    if (!tags.has(part)) tags.set(part, String(i))
  }
  return [...tags.values()]
}

/** The slot of a hash tag: CRC-16/XMODEM, as the specification of Redis Cluster has it. */
export function slotOf(tag: string): number {
  let crc = 0
  for (const byte of Buffer.from(tag)) {
    crc ^= byte << 8
    for (let bit = 0; bit < 8; bit++) crc = (crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1) & 0xffff
  }
  return crc % slots
}
