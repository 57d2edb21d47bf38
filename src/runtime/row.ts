import type { Snowflake } from "../contract/core/fields.ts"
import type { JobRequest, MessageRefs } from "../contract/core/registry.ts"
import type { Audience } from "../domain/core/audience.ts"
import type { Control } from "../domain/core/control.ts"
import type { LogHeader } from "../domain/core/log-entry.ts"
import type { TraceParent } from "../observability/traces.ts"
import type { Publication } from "./actor.ts"
import type { Shard } from "./shard.ts"

/**
 * What one turn publishes, as it stands in the outbox. `d` is JSON made once; it goes to the logs as
 * it is. `about` names the messages that an event is about; it is absent where there are none.
 *   e  event   c  control entry   t  tell   j  job   r  revoked sessions   n  sessions to be looked at anew
 * A row that another version wrote may have an event as `ShortItem`.
 */
export type RowItem =
  | readonly [
      "e",
      home: Snowflake,
      audience: Audience,
      name: string,
      except: readonly string[],
      d: RawJson,
      about?: MessageRefs,
    ]
  | readonly ["c", home: Snowflake, audience: Audience, type: Control["type"], control: RawJson]
  | readonly ["t", actor: string, id: Snowflake, command: string, input: unknown, about?: MessageRefs]
  | readonly ["j", job: string, data: unknown, key: string, runAtMs: number]
  | readonly ["r", sessions: readonly Snowflake[]]
  | readonly ["n", sessions: readonly Snowflake[]]

/** JSON that is not to be made again. */
export class RawJson {
  readonly text: string
  /** In UTF-8. */
  readonly bytes: number
  constructor(text: string) {
    this.text = text
    this.bytes = Buffer.byteLength(text)
  }
}

/** Makes the data of an event of some values, and of the event's home and what it is about. */
type Maker = (place: { readonly home: Snowflake; readonly about: MessageRefs }, values: never) => string
const makers = new Map<string, Maker>()

/**
 * Defines how the data of an event is made of what a row may have of it in short: word for word as it was told at first.
 * What values mean is never changed under the same name, as another version may have written them.
 */
export const defineShortJson = (name: string, make: Maker): void => void makers.set(name, make)

/**
 * An event with what its data is made of. This version reads it and writes none, as the one before passes over it; the next
 * may (ADR 28).
 */
type ShortItem = readonly [
  "s",
  home: Snowflake,
  audience: Audience,
  name: string,
  except: readonly string[],
  short: readonly [maker: string, values: unknown],
  about: MessageRefs,
]

function whole([, home, audience, name, except, [maker, values], about]: ShortItem): RowItem {
  const make = makers.get(maker)
  if (!make) throw new Error(`nothing makes ${maker} of the outbox`)
  return ["e", home, audience, name, except, new RawJson(make({ home, about }, values as never)), about]
}

/** A row of the outbox while it is being published. */
export interface Row {
  readonly shard: Shard
  readonly number: number
  readonly items: readonly RowItem[]
  /** A former owner may have published it: tells are asked for, not taken as new. */
  readonly again: boolean
  /** Items of traced turns, with the spans of their commits. */
  traces?: Map<RowItem, TraceParent>
}

/** Data that is JSON already is taken as it is. */
const jsonOf = (data: unknown): RawJson => (data instanceof RawJson ? data : new RawJson(JSON.stringify(data)))

export function toItem(home: Snowflake, publication: Publication): RowItem {
  switch (publication.kind) {
    case "event": {
      const { audience, event, except, about } = publication
      const d = jsonOf(publication.data)
      return about ? ["e", home, audience, event.name, except, d, about] : ["e", home, audience, event.name, except, d]
    }
    case "control":
      return [
        "c",
        home,
        publication.audience,
        publication.control.type,
        new RawJson(JSON.stringify(publication.control)),
      ]
    case "tell": {
      const { actor, id, command, input, about } = publication
      return about ? ["t", actor, id, command, input, about] : ["t", actor, id, command, input]
    }
    case "job":
      return ["j", publication.job, publication.data, publication.key, publication.runAtMs]
    case "revoke":
      return ["r", publication.sessions]
    case "renew":
      return ["n", publication.sessions]
  }
}

/** Answers to other workers' requests, kept with what they did. */
export type RowAnswer = readonly [requestId: string, reply: unknown]

/** What is made anew is made in one call; nearly every item is an event. */
const itemJson = (item: RowItem): string => {
  if (item[0] !== "e") return partsJson(item)
  const [kind, home, audience, name, except, d, about] = item
  const head = JSON.stringify([kind, home, audience, name, except]).slice(0, -1)
  return about ? `${head},${d.text},${JSON.stringify(about)}]` : `${head},${d.text}]`
}
const partsJson = (item: RowItem): string =>
  `[${item.map(part => (part instanceof RawJson ? part.text : JSON.stringify(part))).join(",")}]`

/** Put together piece by piece: V8 copies the pieces once, when the body is sent. */
export function rowBody(items: readonly RowItem[], answers: readonly RowAnswer[]): string {
  let body = '{"items":['
  for (let i = 0; i < items.length; i++) body += i === 0 ? itemJson(items[i]!) : `,${itemJson(items[i]!)}`
  return `${body}],"answers":${answers.length === 0 ? "[]" : JSON.stringify(answers)}}`
}

export function readRowBody(body: string): { items: RowItem[]; answers: RowAnswer[] } {
  const { items, answers } = JSON.parse(body) as { items: unknown[][]; answers: RowAnswer[] }
  return {
    answers,
    items: items.map(item => {
      if (item[0] === "s") return whole(item as unknown as ShortItem)
      // What is parsed and made again is the same text: it was made by JSON.stringify in the first place.
      const d = item[0] === "e" ? 5 : item[0] === "c" ? 4 : undefined
      if (d !== undefined) item[d] = new RawJson(JSON.stringify(item[d]))
      return item as unknown as RowItem
    }),
  }
}

/**
 * The messages that items of a row are about, by channel. A conversation outside servers has no
 * events of its own: its home tells the homes of its participants. The rows with which those relay
 * to their users are left out.
 */
export function messagesIn(
  items: readonly (RowItem | ShortItem)[],
): { channel_id: Snowflake; message_id: Snowflake }[] {
  const found: { channel_id: Snowflake; message_id: Snowflake }[] = []
  for (const item of items) {
    const isEvent = item[0] === "e" || item[0] === "s"
    const about = isEvent ? (item[2].kind === "user" ? undefined : item[6]) : item[0] === "t" ? item[5] : undefined
    if (!about) continue
    const channel_id = about[0]
    for (let i = 1; i < about.length; i++) found.push({ channel_id, message_id: about[i]! })
  }
  return found
}

/** Header and data of an item as they stand in a delivery log; nothing for items that go elsewhere. */
export function logFields(
  row: Pick<Row, "shard" | "number" | "traces">,
  item: RowItem,
): [header: string, data: string] | undefined {
  if (item[0] === "e") {
    const [, home, audience, name, except, d, about] = item
    const { shard, number } = row
    const trace = row.traces?.get(item)
    const header: LogHeader =
      trace !== undefined
        ? ["e", shard.number, number, home, audience, name, except, about ?? null, trace]
        : about
          ? ["e", shard.number, number, home, audience, name, except, about]
          : ["e", shard.number, number, home, audience, name, except]
    return [JSON.stringify(header), d.text]
  }
  if (item[0] === "c") {
    const [, home, audience, type, control] = item
    return [JSON.stringify(["c", row.shard.number, row.number, home, audience, type] satisfies LogHeader), control.text]
  }
  return undefined
}

export const jobOf = ([, job, data, key, runAtMs]: Extract<RowItem, readonly ["j", ...unknown[]]>): JobRequest => ({
  kind: "job",
  job,
  data,
  key,
  runAtMs,
})
