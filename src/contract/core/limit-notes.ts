import type { ErrorCode } from "./errors.ts"

/** What the generated page of limits says of one limit. */
export interface LimitNote {
  readonly unit: string
  /** What happens beyond the value. */
  readonly beyond: string
}

/** A note for each limit that one file declares: the compiler reports a limit without one. */
export type LimitNotes<Limits> = { readonly [Name in keyof Limits]: LimitNote }

/** A request beyond the limit is refused. Without a code: its validation fails. */
export const refused = (unit: string, ...codes: readonly ErrorCode[]): LimitNote => ({
  unit,
  beyond: `refused: ${(codes.length > 0 ? codes : (["validation_failed"] as const)).map(name => `\`${name}\``).join(", ")}`,
})
