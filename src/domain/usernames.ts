import { isErasedName } from "./personal-data.ts"

/** Letters, digits and underscores of ASCII. The length is the schema's affair. */
export const isUsername = (name: string): boolean => /^[A-Za-z0-9_]+$/.test(name)

/** `reserved` holds lower-case names. What accounts that are gone are called is nobody's to take either. */
export const isReserved = (name: string, reserved: readonly string[]): boolean =>
  reserved.includes(name.toLowerCase()) || isErasedName(name)
