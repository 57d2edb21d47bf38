import { AsyncLocalStorage } from "node:async_hooks"
import { randomBytes } from "node:crypto"
import type { Counter } from "./instruments.ts"

/** What a span says of itself to those that it causes: W3C's `traceparent`, which goes over the bus and into logs. */
export type TraceParent = string

/** A span that is over, as it is exported. */
export interface EndedSpan {
  readonly name: string
  /** 1: within the program; 2: of a request. */
  readonly kind: 1 | 2
  readonly traceId: string
  readonly spanId: string
  readonly parentId: string | undefined
  /** Monotonic. */
  readonly startedAtMs: number
  readonly endedAtMs: number
  readonly attributes: Readonly<Record<string, string | number | boolean>>
  readonly isError: boolean
}

export interface Spans {
  /** Takes it, or leaves it out if too many wait. */
  add(span: EndedSpan): void
}

export interface TracerOptions {
  readonly spans: Spans
  /** The share of requests that are traced, of all whose caller does not say that it traces none. */
  readonly share: number
  /** Requests traced within a second at most, whatever callers ask for. */
  readonly perSecond?: number
  readonly nowMs?: () => number
}

const shape = /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-|$)/
const nothing = /^0+$/

/** @returns undefined: there is none, or one of another form, which is as good as none */
function readParent(text: string | undefined): { traceId: string; spanId: string; isSampled: boolean } | undefined {
  if (text === undefined || text.length > 128 || text.startsWith("ff")) return undefined
  const [, traceId, spanId, flags] = shape.exec(text) ?? []
  if (traceId === undefined || nothing.test(traceId) || nothing.test(spanId!)) return undefined
  return { traceId, spanId: spanId!, isSampled: (Number.parseInt(flags!, 16) & 1) === 1 }
}

/** A span that goes on. */
export class Span {
  readonly name: string
  readonly kind: EndedSpan["kind"]
  readonly traceId: string
  readonly spanId = randomBytes(8).toString("hex")
  readonly parentId: string | undefined
  readonly startedAtMs: number
  readonly #spans: Spans
  #isOver = false

  constructor(spans: Spans, about: Pick<EndedSpan, "name" | "kind" | "traceId" | "parentId" | "startedAtMs">) {
    this.name = about.name
    this.kind = about.kind
    this.traceId = about.traceId
    this.parentId = about.parentId
    this.startedAtMs = about.startedAtMs
    this.#spans = spans
  }

  get parent(): TraceParent {
    return `00-${this.traceId}-${this.spanId}-01`
  }

  get isOver(): boolean {
    return this.#isOver
  }

  /** Once; later ends are none. */
  end(endedAtMs: number, attributes: EndedSpan["attributes"] = {}, isError = false): void {
    if (this.#isOver) return
    this.#isOver = true
    const { name, kind, traceId, spanId, parentId, startedAtMs } = this
    this.#spans.add({ name, kind, traceId, spanId, parentId, startedAtMs, endedAtMs, attributes, isError })
  }
}

/**
 * Begins spans: one for each request that is traced, and below it one for each turn, commit, append
 * and publication that it causes, on whichever worker. A request's own span is known wherever its
 * handler goes; from there on `traceparent` is handed on explicitly. It keeps:
 *   TRACE1  Who calls decides neither how many requests are traced nor what is kept of them: the
 *       share and the bound hold for every caller, and spans hold routes, commands, counts and
 *       ids of homes, no text, name, address or token.
 */
export class Tracer {
  readonly #options: Required<TracerOptions>
  readonly #current = new AsyncLocalStorage<Span>()
  #active = 0
  #second = 0
  #inSecond = 0

  constructor({ perSecond = 50, nowMs = () => performance.now(), ...options }: TracerOptions) {
    this.#options = { perSecond, nowMs, ...options }
  }

  /** The span of a request, if it is one of those that are traced. */
  request(name: string, traceparent: string | undefined, startedAtMs: number): Span | undefined {
    const { spans, share, nowMs } = this.#options
    if (share <= 0) return undefined
    const caller = readParent(traceparent)
    if (caller && !caller.isSampled) return undefined
    // Of a trace that goes on, by the random part of its id, as OpenTelemetry's samplers do: all services of it decide
    // alike. A new one has no id until it is traced, because making one costs more than all the rest.
    const chance = caller ? Number.parseInt(caller.traceId.slice(18, 31), 16) / 2 ** 52 : Math.random()
    if (chance < 1 - share || !this.#mayBegin(nowMs())) return undefined
    const traceId = caller?.traceId ?? randomBytes(16).toString("hex")
    return new Span(spans, { name, kind: 2, traceId, parentId: caller?.spanId, startedAtMs })
  }

  #mayBegin(nowMs: number): boolean {
    const second = Math.floor(nowMs / 1000)
    if (second !== this.#second) {
      this.#second = second
      this.#inSecond = 0
    }
    return this.#inSecond++ < this.#options.perSecond
  }

  /** Runs what a request asks for; whatever it asks of actors belongs to its span until that ends. */
  async run<T>(span: Span, act: () => T | Promise<T>): Promise<T> {
    this.#active++
    try {
      return await this.#current.run(span, act)
    } finally {
      // While nothing is traced, keeping track of what causes what costs nothing.
      if (--this.#active === 0) this.#current.disable()
    }
  }

  /** Of the request that asks now. */
  get current(): TraceParent | undefined {
    if (this.#active === 0) return undefined
    const span = this.#current.getStore()
    return span === undefined || span.isOver ? undefined : span.parent
  }

  /** A span below another, perhaps of another worker. */
  begin(name: string, parent: TraceParent, startedAtMs = this.#options.nowMs()): Span | undefined {
    const caller = readParent(parent)
    if (!caller) return undefined
    return new Span(this.#options.spans, {
      name,
      kind: 1,
      traceId: caller.traceId,
      parentId: caller.spanId,
      startedAtMs,
    })
  }

  /** The same for what is over already. */
  note(name: string, parent: TraceParent, startedAtMs: number, attributes: EndedSpan["attributes"] = {}): TraceParent {
    const span = this.begin(name, parent, startedAtMs)
    span?.end(this.#options.nowMs(), attributes)
    return span?.parent ?? parent
  }
}

export interface TraceExportOptions {
  /** Where spans are posted, as OTLP in JSON. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** What says these spans are from. */
  readonly resource: Readonly<Record<string, string | number>>
  /** Counts spans that were taken by the collector, and those that nobody gets. */
  readonly counted: { readonly exported: Counter; readonly dropped: Counter }
  readonly bounds?: Partial<TraceBounds>
}

interface TraceBounds {
  /** Spans that wait; more are left out. */
  readonly waiting: number
  /** Spans of one request to the collector. */
  readonly batch: number
  readonly everyMs: number
  readonly timeoutMs: number
  /** After so many failures in a row what waits is given up. */
  readonly tries: number
}

const usualBounds: TraceBounds = { waiting: 4_096, batch: 512, everyMs: 2_000, timeoutMs: 5_000, tries: 3 }

/** Takes spans to a collector: OTLP over HTTP, in JSON. Whatever becomes of the collector, nobody waits for it. */
export class TraceExport implements Spans {
  readonly #options: TraceExportOptions
  readonly #bounds: TraceBounds
  readonly #timer: NodeJS.Timeout
  #waiting: EndedSpan[] = []
  #failures = 0
  #sending: Promise<void> | undefined

  constructor(options: TraceExportOptions) {
    this.#options = options
    this.#bounds = { ...usualBounds, ...options.bounds }
    this.#timer = setInterval(() => this.#begin(), this.#bounds.everyMs)
    this.#timer.unref()
  }

  add(span: EndedSpan): void {
    if (this.#waiting.length >= this.#bounds.waiting) return this.#options.counted.dropped.inc()
    this.#waiting.push(span)
    if (this.#waiting.length === this.#bounds.batch) this.#begin()
  }

  /** Sends what waits, once, and takes no more. */
  async stop(): Promise<void> {
    clearInterval(this.#timer)
    await this.#sending
    this.#begin()
    await this.#sending
    this.#options.counted.dropped.inc(this.#waiting.splice(0).length)
  }

  #begin(): void {
    if (this.#sending || this.#waiting.length === 0) return
    this.#sending = this.#sendAll().finally(() => {
      this.#sending = undefined
    })
  }

  async #sendAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.slice(0, this.#bounds.batch)
      const verdict = await this.#send(batch)
      if (verdict === "again" && ++this.#failures < this.#bounds.tries) return // with the next turn of the timer
      this.#failures = 0
      this.#waiting.splice(0, batch.length)
      this.#options.counted[verdict === "taken" ? "exported" : "dropped"].inc(batch.length)
    }
  }

  /** `again`: the collector was away, or wants it later. */
  async #send(batch: readonly EndedSpan[]): Promise<"taken" | "refused" | "again"> {
    const { url, headers, resource } = this.#options
    try {
      const reply = await fetch(url, {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: JSON.stringify(otlpOf(batch, resource)),
        redirect: "error",
        signal: AbortSignal.timeout(this.#bounds.timeoutMs),
      })
      await reply.body?.cancel()
      if (reply.ok) return "taken"
      return [429, 502, 503, 504].includes(reply.status) ? "again" : "refused"
    } catch {
      return "again"
    }
  }
}

/** Spans as OTLP writes them in JSON. */
function otlpOf(spans: readonly EndedSpan[], resource: TraceExportOptions["resource"]) {
  // What is monotonic begins anew with the process, and the clock of the machine may be set meanwhile.
  const offsetMs = Date.now() - performance.now()
  const nanoseconds = (ms: number) => `${BigInt(Math.round((ms + offsetMs) * 1_000)) * 1_000n}`
  return {
    resourceSpans: [
      {
        resource: { attributes: attributesOf(resource) },
        scopeSpans: [
          {
            scope: { name: "starling" },
            spans: spans.map(span => ({
              traceId: span.traceId,
              spanId: span.spanId,
              ...(span.parentId !== undefined && { parentSpanId: span.parentId }),
              flags: 1,
              name: span.name,
              kind: span.kind,
              startTimeUnixNano: nanoseconds(span.startedAtMs),
              endTimeUnixNano: nanoseconds(span.endedAtMs),
              attributes: attributesOf(span.attributes),
              status: span.isError ? { code: 2 } : {},
            })),
          },
        ],
      },
    ],
  }
}

const attributesOf = (attributes: Readonly<Record<string, string | number | boolean>>) =>
  Object.entries(attributes).map(([key, value]) => ({ key, value: valueOf(value) }))

function valueOf(value: string | number | boolean) {
  if (typeof value === "string") return { stringValue: value }
  if (typeof value === "boolean") return { boolValue: value }
  return Number.isSafeInteger(value) ? { intValue: String(value) } : { doubleValue: value }
}
