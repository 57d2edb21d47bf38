/** Letters, digits and underscores of ASCII. The length is the schema's affair. */
export const isUsername = (name: string): boolean => /^[A-Za-z0-9_]+$/.test(name)

/** `reserved` holds lower-case names. */
export const isReserved = (name: string, reserved: readonly string[]): boolean => reserved.includes(name.toLowerCase())
