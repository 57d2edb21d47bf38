import { z } from "zod"
import { codePoints, HttpUrl, omittable, text, utf8Bytes } from "../core/fields.ts"
import { limits } from "../core/limits.ts"

/**
 * What a message shows beside its text. Keys that are not named here are kept as they come; what is
 * named has a shape and a bound. No address in it is ever fetched by the server.
 */

const most = limits.embed

/** Of a list that is too long only as much is read as shows it. */
const bounded = <T extends z.ZodType>(length: number, schema: T) =>
  z.preprocess(value => (Array.isArray(value) && value.length > length ? value.slice(0, length + 1) : value), schema)

const Color = z
  .union([
    z.string().regex(/^#(?:[0-9A-Fa-f]{3}|[0-9A-Fa-f]{6})$/, "must be #RGB or #RRGGBB"),
    z.int().min(0).max(0xffffff),
  ])
  .transform(color => {
    const digits = typeof color === "number" ? color.toString(16).padStart(6, "0") : color.slice(1)
    return `#${digits.length === 3 ? digits.replace(/./g, "$&$&") : digits}`.toUpperCase()
  })
  .describe("`#RGB`, `#RRGGBB` or a 24-bit number. Responses show `#RRGGBB`")

const Pixels = omittable(z.int().nonnegative())
const Picture = z.looseObject({ url: HttpUrl, width: Pixels, height: Pixels })

export const Embed = z
  .looseObject({
    type: z
      .enum(["rich", "image", "video", "gifv", "article", "link"])
      .nullish()
      .transform(type => type ?? "rich"),
    title: omittable(text(0, most.title)),
    description: omittable(text(0, most.description)),
    url: omittable(HttpUrl),
    timestamp: omittable(z.union([z.iso.datetime({ offset: true, local: true }), z.iso.date()])).describe("ISO 8601"),
    color: omittable(Color),
    footer: omittable(z.looseObject({ text: omittable(text(0, most.footer)), icon_url: omittable(HttpUrl) })),
    image: omittable(Picture),
    thumbnail: omittable(Picture),
    video: omittable(Picture),
    author: omittable(
      z.looseObject({
        name: omittable(text(0, most.author)),
        url: omittable(HttpUrl),
        icon_url: omittable(HttpUrl),
      }),
    ),
    provider: omittable(z.looseObject({ name: omittable(text(0, most.author)), url: omittable(HttpUrl) })),
    fields: omittable(
      bounded(
        most.fields,
        z
          .array(
            z.looseObject({
              name: text(0, most.fieldName),
              value: text(0, most.fieldValue),
              inline: z
                .boolean()
                .nullish()
                .transform(inline => inline ?? false),
            }),
          )
          .max(most.fields),
      ),
    ),
  })
  .meta({
    id: "EmbedRequest",
    description: `Unknown keys are kept. All embeds of a message together have at most ${most.allCharacters} characters of text, ${most.allBytes} bytes of JSON, and ${most.allValues} keys and items`,
  })
export type Embed = z.output<typeof Embed>

/** The texts that an embed shows. */
export const embedTexts = ({ title, description, footer, author, provider, fields = [] }: Embed): string[] =>
  [
    title,
    description,
    footer?.text,
    author?.name,
    provider?.name,
    ...fields.flatMap(({ name, value }) => [name, value]),
  ].filter(part => part !== undefined)

const embedCharacters = (embed: Embed): number => embedTexts(embed).reduce((sum, part) => sum + codePoints(part), 0)

/**
 * How many keys and items there are in a value, at every depth; counted no further than shows that
 * there are more than `most`.
 */
export function valuesIn(value: unknown, most = Infinity): number {
  let count = 0
  const open = [value]
  while (open.length > 0 && count <= most) {
    const next = open.pop()
    if (typeof next !== "object" || next === null) continue
    const inside: unknown[] = Array.isArray(next) ? next : Object.values(next)
    count += inside.length
    if (count <= most) for (const one of inside) open.push(one)
  }
  return count
}

/**
 * The embeds of one message. One more than it may have can be among them: that refusal is the
 * route's own.
 */
export const Embeds = bounded(
  limits.embedsPerMessage,
  // Counted before any of them is looked at.
  z.preprocess((given, context) => {
    if (valuesIn(given, most.allValues) <= most.allValues) return given
    context.addIssue({ code: "custom", message: `must have at most ${most.allValues} keys and items together` })
    return z.NEVER
  }, z.array(Embed)),
)
  .refine(
    embeds => embeds.reduce((sum, embed) => sum + embedCharacters(embed), 0) <= most.allCharacters,
    `must have at most ${most.allCharacters} characters of text together`,
  )
  .refine(
    embeds => utf8Bytes(JSON.stringify(embeds)) <= most.allBytes,
    `must be at most ${most.allBytes} bytes of JSON together`,
  )
