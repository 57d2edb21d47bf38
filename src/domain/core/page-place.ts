import type { Snowflake } from "../../contract/core/fields.ts"

/** What a client asks of a history; see `PageQuery`. */
export interface PagePlace {
  readonly limit: number
  readonly before?: Snowflake | undefined
  readonly after?: Snowflake | undefined
  readonly around?: Snowflake | undefined
}

/** Whether it is the newest page. */
export const isNewestPage = ({ before, after, around }: PagePlace): boolean =>
  before === undefined && after === undefined && around === undefined
