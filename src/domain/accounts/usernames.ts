/** Letters, digits and underscores of ASCII. The length is the schema's affair. */
export const isUsername = (name: string): boolean => /^[A-Za-z0-9_]+$/.test(name)

/** What a name of an account that was purged begins with. Nobody else may have such a name. */
export const erasedName = (id: string, suffix = ""): string => `deleted_user_${id}${suffix}`
const isErasedName = (name: string): boolean => /^deleted_user_\d/i.test(name)

/**
 * `reserved` holds lower-case names. What accounts that are gone are called is nobody's to take
 * either.
 */
export const isReserved = (name: string, reserved: readonly string[]): boolean =>
  reserved.includes(name.toLowerCase()) || isErasedName(name)
