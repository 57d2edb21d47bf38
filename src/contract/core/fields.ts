import { z } from "zod"
import { limits } from "./limits.ts"

const largestId = "9223372036854775807"
const fitsInt64 = (digits: string) => digits.length < 19 || (digits.length === 19 && digits <= largestId)

/** An id as we send it: a 64-bit integer in a decimal string. */
export const Snowflake = z
  .string()
  .regex(/^(0|[1-9]\d{0,18})$/, "must be a snowflake")
  .refine(fitsInt64, "must be a snowflake")
  .meta({
    id: "Snowflake",
    description:
      "A 64-bit id as a decimal string: 42 bits of milliseconds since 2024-01-01, 10 bits of shard, 12 bits of sequence",
    example: "41771983423143937",
  })
export type Snowflake = string

/** An id as we take it in a body: a string of digits, or a JSON integer whose digits are exact. */
export const SnowflakeInput = z.preprocess(
  value => (typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? String(value) : value),
  Snowflake,
)

/** Unix time in whole seconds. */
export const Seconds = z.int().meta({ description: "Unix time in seconds" })

/** From this number on a time is in milliseconds: as seconds it would be in the year 5138. */
const leastMilliseconds = 100_000_000_000

const inSeconds = (time: number): number => (time >= leastMilliseconds ? Math.floor(time / 1000) : time)
const eitherUnit = "Unix time in seconds. A number of 100,000,000,000 or more is in milliseconds"

/** A time as we take it in, in either unit; it becomes seconds. */
export const SecondsInput = z.int().nonnegative().transform(inSeconds).describe(eitherUnit)

/** The same in a query string. */
export const querySeconds = z
  .string()
  .regex(/^-?\d{1,15}$/, "must be an integer")
  .transform(digits => inSeconds(Number(digits)))
  .meta({ type: "integer", description: eitherUnit })

/**
 * Text that a person wrote: no lone surrogate, no U+0000 (both are refused with 400 before a schema
 * sees them). Length counts in code points.
 */
export const text = (min: number, max: number) =>
  z
    .string()
    .refine(value => {
      const length = codePoints(value)
      return length >= min && length <= max
    }, `must have ${min} to ${max} characters`)
    .meta({ minLength: min, maxLength: max })

/**
 * Whether somebody sees anything of a text. Space shows nothing, and neither do characters that
 * only say how others are shown, marks without a letter that they belong to, and the blank pattern
 * of Braille.
 */
export const isVisible = (value: string): boolean =>
  /[^\s\p{Cc}\p{M}\p{Default_Ignorable_Code_Point}\u2800\ufff9-\ufffb]/u.test(value)

/** A name that others read: text of which they see something. Empty only where `min` is 0. */
export const nameText = (min: number, max: number) =>
  text(min, max).refine(value => value === "" || isVisible(value), "must not be blank")

/** How many code points a text has; cheap for the texts that are certainly short or long enough. */
const encoder = new TextEncoder()
export const utf8Bytes = (value: string): number => encoder.encode(value).length

export function codePoints(value: string): number {
  let count = value.length
  for (let i = 0; i < value.length - 1; i++)
    if ((value.charCodeAt(i) & 0xfc00) === 0xd800) {
      count--
      i++
    }
  return count
}

/** A whole number in a query string. */
export const queryInt = (min: number, max: number) =>
  z
    .string()
    .regex(/^-?\d{1,10}$/, "must be an integer")
    .transform(Number)
    .pipe(z.int().min(min).max(max))

/** A yes or no in a query string. */
export const queryFlag = z
  .string()
  .regex(/^(?:true|1|yes|on|false|0|no|off)$/i, "must be true or false")
  .transform(value => /^(?:true|1|yes|on)$/i.test(value))
  .meta({ description: "`true`, `1`, `yes` or `on`; `false`, `0`, `no` or `off`. Case is ignored" })

/** An address of a web page or a picture. It is kept as it is; nobody here fetches it. */
export const HttpUrl = z
  .string()
  .max(limits.urlCharacters)
  .refine(isHttpUrl, "must be an http or https URL")
  .meta({ format: "uri" })

/**
 * Nothing that a reader of URLs would drop or turn round may stand in it, so that everybody reads
 * the same.
 */
function isHttpUrl(value: string): boolean {
  if (!/^https?:\/\/[^\s\\\p{Cc}]+$/iu.test(value) || !URL.canParse(value)) return false
  const { username, password } = new URL(value)
  return username === "" && password === ""
}

/**
 * Body fields for which JSON `null` means "not sent". What leaves `null` out is a check and not a
 * schema behind the first: zod makes two objects less for each field, sent or not.
 */
export const omittable = <T extends z.ZodType>(schema: T): Omittable<T> =>
  schema.nullish().overwrite(value => value ?? undefined) as z.ZodType as Omittable<T>
/** An optional field, from which no `null` comes. */
type Omittable<T extends z.ZodType> = z.ZodType<
  z.output<T> | undefined,
  z.input<T> | null | undefined,
  z.core.$ZodTypeInternals<z.output<T> | undefined, z.input<T> | null | undefined> & {
    readonly optin: "optional"
    readonly optout: "optional"
  }
>

export const Success = z.object({ success: z.literal(true) }).meta({ id: "SuccessResponse" })
export type Success = z.infer<typeof Success>
export const success: Success = { success: true }

/** Keys of an object whose names its sender chooses. */
export const maxUserKeys = 64

/**
 * An object with such keys. How many there are is looked at before any of them is: each one that is
 * wrong costs as much as many that are right.
 */
export const userKeys = <Value extends z.ZodType>(
  value: Value,
  { key = z.string(), maxKeys = maxUserKeys }: { key?: z.ZodString; maxKeys?: number } = {},
) =>
  z.preprocess(
    (given, context) => {
      if (typeof given !== "object" || given === null || !hasMoreKeys(given, maxKeys)) return given
      context.addIssue({ code: "custom", message: `must have at most ${maxKeys} keys` })
      return z.NEVER
    },
    z.record(key, value),
  )

function hasMoreKeys(value: object, most: number): boolean {
  let count = 0
  for (const _ in value) if (++count > most) return true
  return false
}
