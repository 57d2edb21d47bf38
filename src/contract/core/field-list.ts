/**
 * A JSON schema as a person reads it: one line per field. The documents in `docs/` and the pages
 * under `/docs` share it.
 */

export interface Schema {
  $ref?: string
  $defs?: Record<string, Schema>
  type?: string | string[]
  anyOf?: Schema[]
  const?: unknown
  enum?: unknown[]
  items?: Schema
  not?: object
  properties?: Record<string, Schema>
  required?: string[]
  additionalProperties?: Schema
  description?: string
}

/** How a page writes a literal, and a type that has a place of its own. */
export interface Writing {
  code(text: string): string
  link(name: string): string
}

export interface Field {
  /** `user.id` for what lies in an object, `roles[].id` for what lies in an array of objects. */
  readonly path: string
  readonly type: string
  readonly isRequired: boolean
  readonly description: string | undefined
}

const nameIn = (ref: string) => ref.split("/").at(-1)!

export function typeOf(schema: Schema, writing: Writing): string {
  const { code, link } = writing
  if (schema.$ref !== undefined) return link(nameIn(schema.$ref))
  if (schema.const !== undefined) return code(JSON.stringify(schema.const))
  if (schema.enum !== undefined) return schema.enum.map(value => code(JSON.stringify(value))).join(" or ")
  if (schema.anyOf !== undefined) return schema.anyOf.map(one => typeOf(one, writing)).join(" or ")
  if (schema.type === "array") {
    if (schema.items?.not !== undefined) return "empty array"
    return schema.items?.properties === undefined && Object.keys(schema.items ?? {}).length > 0
      ? `array of ${typeOf(schema.items!, writing)}`
      : "array"
  }
  return schema.type === undefined ? "anything" : [schema.type].flat().join(" or ")
}

export function fieldsOf(schema: Schema, writing: Writing, above = ""): Field[] {
  const { properties = {}, required = [], anyOf } = schema
  // One of several shapes: the fields of all, and required is what each has.
  if (above === "" && anyOf) {
    const shapes = anyOf.map(one => fieldsOf(one, writing))
    const fields = new Map(shapes.flat().map(field => [field.path, field]))
    const isInEach = (path: string) => shapes.every(shape => shape.some(one => one.path === path && one.isRequired))
    return [...fields.values()].map(field => ({ ...field, isRequired: isInEach(field.path) }))
  }
  return Object.entries(properties).flatMap(([name, schema]) => {
    const path = above + name
    const field: Field = {
      path,
      type: typeOf(schema, writing),
      isRequired: required.includes(name),
      description: [schema, ...(schema.anyOf ?? [])].find(one => one.description !== undefined)?.description,
    }
    return [
      field,
      ...fieldsOf(schema, writing, `${path}.`),
      ...(schema.items === undefined ? [] : fieldsOf(schema.items, writing, `${path}[].`)),
    ]
  })
}
