import { z } from "zod"

export type Json = Record<string, unknown>
export type Ref = { $ref: string }

/**
 * A zod schema as JSON Schema (draft 2020-12), as a client sends it (`input`) or receives it
 * (`output`). Named schemas become `#/$defs/…`.
 */
export function jsonSchema(schema: z.ZodType, io: "input" | "output"): Json {
  const named: Json = {}
  const { $schema: _, ...json } = z.toJSONSchema(schema, {
    io,
    unrepresentable: "any",
    override({ zodSchema, jsonSchema: json }) {
      const { def } = zodSchema._zod
      // Replies may gain keys and unknown ones in requests are ignored, so nothing is closed unless
      // its schema says so.
      if (def.type === "object" && def.catchall === undefined) delete json.additionalProperties
      // Every z.int() has the bounds of a safe integer; they would hide the bounds that were
      // chosen.
      if (json.minimum === Number.MIN_SAFE_INTEGER) delete json.minimum
      if (json.maximum === Number.MAX_SAFE_INTEGER) delete json.maximum
      // Text that is read as something else (a number in a query, a trimmed name): the bounds stand
      // behind the reading. A list in one text stays text.
      const read = io === "input" && def.type === "pipe" ? def.out._zod.def.type : "transform"
      if (def.type === "pipe" && read !== "transform" && read !== "array" && json.$ref === undefined) {
        delete json.pattern
        const { $defs, ...out } = jsonSchema(def.out as z.ZodType, io)
        Object.assign(named, $defs)
        Object.assign(json, out)
      }
      if (json.example !== undefined) {
        json.examples = [json.example]
        delete json.example
      }
    },
  })
  return Object.keys(named).length === 0 ? json : { ...json, $defs: { ...named, ...(json.$defs as Json) } }
}

/** Collects named schemas, so that each stands once in the document. */
export class Components {
  readonly schemas: Record<string, Json> = {}
  readonly examples: Record<string, { value: unknown }> = {}

  /** The schema with its names pointing into the document. */
  add(schema: z.ZodType, io: "input" | "output"): Json {
    const { $defs = {}, ...json } = inDocument(jsonSchema(schema, io)) as Json & { $defs?: Record<string, Json> }
    for (const [name, definition] of Object.entries($defs)) {
      const known = this.schemas[name]
      if (known !== undefined && JSON.stringify(known) !== JSON.stringify(definition))
        throw new Error(`the schema ${name} has two meanings: sent and received it differs, or two schemas bear its id`)
      this.schemas[name] = definition
    }
    return json
  }
}

const inDocument = (json: Json): Json =>
  JSON.parse(JSON.stringify(json).replaceAll('"#/$defs/', '"#/components/schemas/')) as Json
