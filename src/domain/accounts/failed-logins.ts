import type { Snowflake } from "../../contract/core/fields.ts"

/**
 * Under what failed sign-ins are counted: those of an account under its id, because a name can be
 * changed; those of a name that nobody has under the name. The two never meet: no text that
 * somebody gives becomes the key of an account.
 */
export const loginKeyOf = (user: Snowflake): string => `#${user}`
export const loginKeyOfName = (name: string): string => name.toLowerCase().replace(/^#/, "##")
