import { z } from "zod"
import { HttpUrl, text, userKeys } from "../core/fields.ts"
import { limits } from "../core/limits.ts"
import type { ClassifierBackend } from "./automod.ts"

/** What is shown instead of a secret, and sent instead of one that stays as it is. */
export const hiddenSecret = "********"

const or = <T extends z.ZodType>(schema: T, fallback: z.output<T>) =>
  schema.nullish().transform(value => value ?? fallback)

/** What goes into a header: one line of visible ASCII. */
const headerText = (min: number, max: number) =>
  z
    .string()
    .min(min)
    .max(max)
    .regex(/^[\x20-\x7e]*$/, "must be visible ASCII")
const headerName = z
  .string()
  .max(100)
  .regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, "must be the name of a header")
/** Headers that say how long the body is and where the request goes. */
const framing = new Set([
  "host",
  "content-length",
  "transfer-encoding",
  "connection",
  "upgrade",
  "expect",
  "te",
  "trailer",
])
const isFraming = (name: string) => framing.has(name.toLowerCase())

const apiKey = headerText(1, limits.automod.secretCharacters)
  .nullish()
  .transform(value => value ?? null)
  .describe(`Shown as \`${hiddenSecret}\`, which leaves it as it is when it is sent`)
/** Some services take their key in the query. */
const address = HttpUrl.describe(
  `A query is shown as \`?${hiddenSecret}\`, which leaves it as it is when it is sent. It has no name and no password`,
)
const threshold = (usual: number) =>
  or(z.number().min(0).max(1), usual).describe("Score from which on a rule without `score_threshold` is broken")

/** The settings of each classifier, with their defaults. */
export const classifierSettings = {
  openai: z.object({
    api_key: apiKey,
    model: or(text(1, 100), "omni-moderation-latest"),
    api_url: or(address, "https://api.openai.com/v1/moderations"),
    threshold: threshold(0.5),
  }),
  perspective: z.object({
    api_key: apiKey,
    api_url: or(address, "https://commentanalyzer.googleapis.com/v1alpha1/comments:analyze"),
    threshold: threshold(0.7),
    attributes: or(
      z
        .array(z.string().regex(/^[A-Z_]{1,50}$/, "must be an attribute such as TOXICITY"))
        .min(1)
        .max(20),
      ["TOXICITY", "SEVERE_TOXICITY", "IDENTITY_ATTACK", "INSULT", "PROFANITY", "THREAT"],
    ),
  }),
  custom: z.object({
    endpoint_url: address,
    api_key: apiKey,
    auth_header: or(
      headerName.refine(name => !isFraming(name), "must not be a header of the connection"),
      "Authorization",
    ),
    auth_prefix: or(headerText(0, 50), "Bearer").describe("Precedes the key, with a space between them"),
    timeout_seconds: or(z.int().min(1).max(limits.automod.classifierSeconds), 10),
    threshold: threshold(0.5),
    headers: or(
      userKeys(headerText(0, limits.automod.secretCharacters), { key: headerName, maxKeys: 20 }).refine(
        headers => !Object.keys(headers).some(isFraming),
        "must not have headers of the connection",
      ),
      {},
    ).describe("Sent with each request. Their values are hidden like `api_key`"),
    request_format: or(
      z
        .record(z.string(), z.unknown())
        .refine(format => JSON.stringify(format).length <= limits.automod.requestCharacters, "is too long")
        .refine(hasPlace, "must have {content} in it"),
      { content: "{content}" },
    ).describe("The body. `{content}` in any of its texts is replaced with the text of the message"),
  }),
} as const satisfies Record<ClassifierBackend, z.ZodObject>
export type ClassifierSettings<T extends ClassifierBackend> = z.output<(typeof classifierSettings)[T]>

/** Depth of a request's body: what is deeper is not looked into. */
export const requestDepth = 8
function hasPlace(value: unknown, depth = 0): boolean {
  if (typeof value === "string") return value.includes("{content}")
  if (typeof value !== "object" || value === null || depth >= requestDepth) return false
  return Object.values(value).some(inner => hasPlace(inner, depth + 1))
}

/** Those that operators have set up; one that is missing is not there. */
export const AutomodClassifiers = z.object({
  openai: classifierSettings.openai.optional(),
  perspective: classifierSettings.perspective.optional(),
  custom: classifierSettings.custom.optional(),
})
export type AutomodClassifiers = z.output<typeof AutomodClassifiers>

export const AutomodSettings = z
  .object({
    enabled: z.boolean().describe("False: no rule of any server is evaluated"),
    ai: AutomodClassifiers.describe("The classifiers of `ai_moderation` rules"),
  })
  .meta({ id: "AutomodSettings" })
export type AutomodSettings = z.output<typeof AutomodSettings>

export const AutomodSettingsPatch = z
  .object({
    enabled: z
      .boolean()
      .nullish()
      .transform(value => value ?? undefined),
    ai: z
      .object({
        openai: classifierSettings.openai.nullish(),
        perspective: classifierSettings.perspective.nullish(),
        custom: classifierSettings.custom.nullish(),
      })
      .nullish()
      .transform(value => value ?? undefined)
      .describe(
        "Each object replaces the classifier's settings as a whole; null removes them, so that those of the configuration hold again; others stay",
      ),
  })
  .meta({ id: "AutomodSettingsPatch" })
export type AutomodSettingsPatch = z.output<typeof AutomodSettingsPatch>
