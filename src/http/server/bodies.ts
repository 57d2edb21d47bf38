import { fail } from "../../contract/core/errors.ts"
import type { Form, Route } from "../../contract/core/registry.ts"
import { ByteBudget } from "../../std/byte-budget.ts"
import { OnePerTurn } from "../../std/one-per-turn.ts"
import type { Exchange } from "./exchange.ts"
import type { Exchanges } from "./exchanges.ts"
import { FormStream, maxBytesBesideFile } from "./form-stream.ts"
import { fileTooLarge, readForm, sizeMessage } from "./multipart.ts"
import type { PreparedRoute } from "./prepared-route.ts"
import type { RequestBody } from "./request-body.ts"
import { StreamedBody } from "./streamed-body.ts"
import { largeBodyCharacters, readBody } from "./validation.ts"

/** Limits of what comes in. */
export interface BodyLimits {
  readonly body: {
    readonly maxBytes: number
    readonly maxDepth: number
    readonly maxValues: number
    readonly timeoutMs: number
  }
  /** Forms with files: of all that are under way, of one caller, and for a whole one. */
  readonly uploads: { readonly maxBytes: number; readonly maxBytesPerUser: number; readonly timeoutMs: number }
  /** Files that are read while they arrive. */
  readonly streams: {
    /** What all of them hold of memory. */
    readonly maxBytes: number
    readonly maxConcurrent: number
    readonly maxPerUser: number
    /**
     * Below it the sender is cut off, once `uploads.timeoutMs` is over; the same counts for
     * readers.
     */
    readonly minBytesPerSecond: number
  }
  readonly answerTimeoutMs: number
}

/**
 * uWebSockets.js drops a connection on which nothing came for 8 to 12 s; the answer has to be out
 * before.
 */
const maxBodyTimeoutMs = 7_000

/** Takes in the bodies of requests within their limits. */
export function createBodies(limits: BodyLimits, exchanges: Exchanges) {
  const { uploads, streams, answerTimeoutMs } = limits
  const idleTimeoutMs = Math.min(limits.body.timeoutMs, maxBodyTimeoutMs)
  const uploadBudget = new ByteBudget(uploads.maxBytes, uploads.maxBytesPerUser)
  const streamBudget = new ByteBudget(streams.maxBytes, uploads.maxBytesPerUser)
  const streamSlots = new ByteBudget(streams.maxConcurrent, streams.maxPerUser)

  /** To look at a large body takes milliseconds, and a user may send sixty at once. */
  const largeBodies = new OnePerTurn()

  const maxBytesWith = (file: NonNullable<Form["file"]>) => file.bytes + maxBytesBesideFile

  function boundsOf({ form, body }: Route): PreparedRoute["body"] {
    const file = form?.file
    if (!body || !file)
      return {
        maxBytes: limits.body.maxBytes,
        tooLarge: () => fail("payload_too_large"),
        timeoutMs: idleTimeoutMs,
        idleTimeoutMs,
        budget: undefined,
      }
    return {
      maxBytes: maxBytesWith(file),
      tooLarge: () => fileTooLarge(file),
      timeoutMs: uploads.timeoutMs,
      idleTimeoutMs,
      budget: uploadBudget,
    }
  }

  function streamBoundsOf({ form }: Route): PreparedRoute["stream"] {
    const file = form?.file
    if (!file?.isStreamed) return undefined
    return {
      maxBytes: maxBytesWith(file),
      tooLarge: bytes => fail(file.tooLarge, { message: sizeMessage(bytes, file.bytes) }),
      timeoutMs: uploads.timeoutMs,
      minBytesPerSecond: streams.minBytesPerSecond,
      idleTimeoutMs,
      budget: streamBudget,
      slots: streamSlots,
    }
  }

  function textOf(exchange: Exchange, body: RequestBody): string | undefined | Promise<string | undefined> {
    if (!body.settled) return awaited(exchange, body, body.text())
    exchanges.unwatchBody(body)
    return body.settledText()
  }

  /** The time that a body takes to arrive has a limit of its own. */
  async function awaited<Content>(exchange: Exchange, body: RequestBody, content: Promise<Content>): Promise<Content> {
    if (!body.settled) exchange.dueAt = Infinity
    try {
      return await content
    } finally {
      exchanges.unwatchBody(body)
      if (exchange.dueAt === Infinity) exchange.dueAt = performance.now() + answerTimeoutMs
    }
  }

  /**
   * The file of a form: it may take its time as long as it keeps coming, and then until the disk
   * has it.
   */
  function streamOf({ route }: PreparedRoute, exchange: Exchange, body: StreamedBody): FormStream {
    exchange.dueAt = Infinity
    body.onEnd(() => {
      exchange.dueAt = performance.now() + uploads.timeoutMs
    })
    return new FormStream(body, route.form!.file!.name, exchange.contentType)
  }

  return {
    boundsOf,
    streamBoundsOf,

    /** Begins to take in the body of a request, if its route has one. */
    listen(prepared: PreparedRoute, exchange: Exchange, holder: string): RequestBody | StreamedBody | undefined {
      if (prepared.stream) return exchange.listenToStream(prepared.stream, holder)
      return prepared.route.body && exchange.listenToBody(prepared.body, holder)
    },

    /**
     * Waits for a body. `value` validates it: before that, the caller looks whether the client is
     * still there.
     */
    async read(prepared: PreparedRoute, exchange: Exchange, body: RequestBody | StreamedBody) {
      const { route } = prepared
      if (body instanceof StreamedBody)
        return { value: () => undefined, form: () => streamOf(prepared, exchange, body) }
      const form = () => undefined
      if (route.form) {
        const bytes = await awaited(exchange, body, body.bytes())
        return { value: () => readForm(bytes, exchange.contentType, route), form }
      }
      const waited = textOf(exchange, body)
      const text = typeof waited === "object" ? await waited : waited
      if (text !== undefined && text.length > largeBodyCharacters) await largeBodies.wait()
      const { maxDepth, maxValues } = limits.body
      const value = () => readBody(text, route.body!, { optional: route.bodyOptional, maxDepth, maxValues })
      return { value, form }
    },

    /** Files are long: a refusal waits until its reader has stopped writing. */
    async drain(exchange: Exchange, body: RequestBody | StreamedBody): Promise<void> {
      exchange.dueAt = Infinity
      await body.drained()
    },
  }
}
