import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from "node:crypto"

const ivBytes = 12
const tagBytes = 16

/**
 * What the server's secret key protects, so that a copy of the database alone is not enough:
 * secrets that have to be read again are sealed (AES-256-GCM); codes too short for a plain hash are
 * kept as keyed digests (HMAC-SHA-256).
 * @param key 32 bytes in hex
 */
export function createSecrets(key: string) {
  const derived = (use: string) => Buffer.from(hkdfSync("sha256", Buffer.from(key, "hex"), "", `starling ${use}`, 32))
  const sealing = derived("sealing")
  const digesting = derived("digests")

  return {
    /** `about` is part of the seal: what is moved to another place does not open there. */
    seal(text: string, about: string): string {
      const iv = randomBytes(ivBytes)
      const cipher = createCipheriv("aes-256-gcm", sealing, iv).setAAD(Buffer.from(about))
      const sealed = Buffer.concat([cipher.update(text, "utf8"), cipher.final()])
      return Buffer.concat([iv, cipher.getAuthTag(), sealed]).toString("base64url")
    },

    /** Throws when it was sealed with another key, about something else, or changed since. */
    open(sealed: string, about: string): string {
      const bytes = Buffer.from(sealed, "base64url")
      const decipher = createDecipheriv("aes-256-gcm", sealing, bytes.subarray(0, ivBytes)).setAAD(Buffer.from(about))
      decipher.setAuthTag(bytes.subarray(ivBytes, ivBytes + tagBytes))
      return decipher.update(bytes.subarray(ivBytes + tagBytes), undefined, "utf8") + decipher.final("utf8")
    },

    digest: (text: string, about: string): string =>
      createHmac("sha256", digesting).update(`${about}\n${text}`).digest("base64url"),
  }
}

export type Secrets = ReturnType<typeof createSecrets>
