import { randomUUID } from "node:crypto"

const lastDigits = Array.from({ length: 4096 }, (_, n) => n.toString(16).padStart(3, "0"))

/**
 * Ids as long as a UUID, unique in the whole cluster. Many in a row share their random part: randomness
 * costs more than the rest of an id.
 */
export function createRequestIds(): () => string {
  let shared = ""
  let given = lastDigits.length
  return () => {
    if (given === lastDigits.length) {
      shared = randomUUID().slice(0, -3)
      given = 0
    }
    return shared + lastDigits[given++]!
  }
}
