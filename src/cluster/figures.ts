import type { RedisKeys } from "./keys.ts"
import { defineScript, type Redis } from "./redis.ts"

/** What one process did in one span: `sums` are added to those of the others, of `peaks` the largest counts. */
export interface Figures {
  readonly sums: Readonly<Record<string, number>>
  readonly peaks: Readonly<Record<string, number>>
}

/** Figures of all processes in one span. Its number is its end, in Unix seconds, by the length of a span. */
export interface Span {
  readonly number: number
  readonly values: Readonly<Record<string, number>>
}

export interface FigureBoardOptions {
  readonly redis: Redis
  readonly keys: Pick<RedisKeys, "figures" | "figuresOfProcesses">
  /** Spans that are kept. */
  readonly spans: number
  readonly spanSeconds: number
}

/** Seconds that a process is remembered which says nothing any more. */
const processSeconds = 60
/** Spans that may still change: who notes late is not that late. */
const openSpans = 2

/**
 * What the processes of all hosts did in the last hour. Redis has one small hash per span, whatever
 * the number of processes; nothing is lost with it but a picture of the past.
 */
export class FigureBoard {
  readonly #options: FigureBoardOptions
  /** Spans that are over. */
  readonly #kept = new Map<number, Span>()

  constructor(options: FigureBoardOptions) {
    this.#options = options
    defineScript(options.redis, "note-figures", 2)
  }

  /** The span that ends next. */
  spanAt(nowMs: number): number {
    return Math.ceil(nowMs / 1000 / this.#options.spanSeconds)
  }

  /** @param about of the process, for `processes` */
  async note(span: number, { sums, peaks }: Figures, process: string, about: object, nowMs: number): Promise<void> {
    const { redis, keys, spans, spanSeconds } = this.#options
    const fields = (kind: "+" | ">", values: Readonly<Record<string, number>>) =>
      Object.entries(values).flatMap(([name, value]) => [kind, name, String(value)])
    const scripts = redis as unknown as { "note-figures"(...args: string[]): Promise<number> }
    await scripts["note-figures"](
      keys.figures(span),
      keys.figuresOfProcesses,
      String((spans + openSpans) * spanSeconds),
      process,
      String(Math.floor(nowMs / 1000)),
      String(processSeconds),
      JSON.stringify(about),
      ...fields("+", sums),
      ...fields(">", peaks),
    )
  }

  /** Those after the last that is known, the oldest first. One of which nothing is known is left out. */
  async spans(last: number, nowMs: number): Promise<Span[]> {
    const { redis, keys, spans } = this.#options
    const newest = this.spanAt(nowMs) - 1
    const first = Math.max(last + 1, newest - spans + 1)
    for (const number of this.#kept.keys()) if (number <= newest - spans) this.#kept.delete(number)
    const numbers = Array.from({ length: Math.max(0, newest - first + 1) }, (_, i) => first + i)
    const read = await Promise.all(
      numbers.map(async number => {
        const known = this.#kept.get(number)
        if (known) return known
        const fields = await redis.hgetall(keys.figures(number))
        const values = Object.fromEntries(Object.entries(fields).map(([name, text]) => [name, Number(text)]))
        const span = { number, values }
        if (number <= newest - openSpans) this.#kept.set(number, span)
        return span
      }),
    )
    return read.filter(({ values }) => Object.keys(values).length > 0)
  }

  /** What the processes last said of themselves, and when, in Unix seconds. */
  async processes(nowMs: number): Promise<{ id: string; seenAt: number; about: unknown }[]> {
    const { redis, keys } = this.#options
    const fields = await redis.hgetall(keys.figuresOfProcesses)
    return Object.entries(fields)
      .map(([id, text]) => {
        const at = text.indexOf(" ")
        return { id, seenAt: Number(text.slice(0, at)), about: JSON.parse(text.slice(at + 1)) as unknown }
      })
      .filter(({ seenAt }) => seenAt + processSeconds >= nowMs / 1000)
  }
}
