import { randomBytes } from "node:crypto"
import { generateSecret, generateURI, verifySync } from "otplib"

/**
 * Codes of authenticator apps (RFC 6238: SHA-1, six digits, steps of 30 seconds) and the backup
 * codes beside them.
 */
const periodSeconds = 30
const backupCodes = 10

/** 160 random bits, as 32 characters of base32. */
export const newTotpSecret = (): string => generateSecret({ length: 20 })

/** What a QR code tells an app. The other parameters are every app's defaults. */
export const totpUri = (issuer: string, username: string, secret: string): string =>
  generateURI({ issuer, label: username, secret })

/**
 * The time step that a code is of: the one of now (Unix seconds), the one before or the one after;
 * undefined: of none.
 */
export function stepOf(code: string, secret: string, now: number): number | undefined {
  if (!isTotpCode(code)) return undefined
  // Reckoned from the middle of a step, a tolerance of one step is exactly its two neighbours.
  const epoch = Math.floor(now / periodSeconds) * periodSeconds + periodSeconds / 2
  const result = verifySync({ secret, token: code, epoch, epochTolerance: periodSeconds })
  return result.valid && "timeStep" in result ? result.timeStep : undefined
}

export const isTotpCode = (code: string): boolean => /^\d{6}$/.test(code)

/** `XXXX-XXXX`, of 32 random bits each. */
export const newBackupCodes = (): string[] =>
  Array.from({ length: backupCodes }, () => {
    const digits = randomBytes(4).toString("hex").toUpperCase()
    return `${digits.slice(0, 4)}-${digits.slice(4)}`
  })

/** A backup code as it is digested; undefined: it is none. */
export function readBackupCode(code: string): string | undefined {
  const [, first, second] = /^([0-9A-F]{4})-?([0-9A-F]{4})$/i.exec(code) ?? []
  return first === undefined ? undefined : `${first}${second}`.toUpperCase()
}
