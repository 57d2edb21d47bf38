import { fail } from "../../contract/core/errors.ts"
import type { Form, Route } from "../../contract/core/registry.ts"
import { ByteBudget } from "../../std/byte-budget.ts"
import { OnePerTurn } from "../../std/one-per-turn.ts"
import { AnswerClock, inTime } from "./answer-clock.ts"
import type { Exchange } from "./exchange.ts"
import { FormStream, maxBytesBesideFile } from "./form-stream.ts"
import type { Call } from "./handlers.ts"
import { Inflow } from "./inflow.ts"
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
  /** Forms with files: of all that are under way, of one caller, and for a whole one, and then for its answer. */
  readonly uploads: { readonly maxBytes: number; readonly maxBytesPerUser: number; readonly timeoutMs: number }
  /** Files that are read while they arrive. */
  readonly streams: {
    /** What all of them hold of memory before anybody reads them, and what they pass through then. */
    readonly maxBytes: number
    readonly bufferBytes: number
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

type Content = string | Buffer | undefined
type FileIn = Pick<Call, "form" | "longer">
const noFile: FileIn = { form: undefined, longer: inTime }

/** Takes in the bodies of requests within their limits. */
export function createBodies(limits: BodyLimits) {
  const { uploads, streams, answerTimeoutMs } = limits
  const idleTimeoutMs = Math.min(limits.body.timeoutMs, maxBodyTimeoutMs)
  const uploadBudget = new ByteBudget(uploads.maxBytes, uploads.maxBytesPerUser)
  const streamBudget = new ByteBudget(streams.maxBytes, uploads.maxBytesPerUser)
  const inflow = new Inflow(streams.bufferBytes)
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
      tooLarge: bytes =>
        file.tooLarge === "file_too_large"
          ? fileTooLarge(file)
          : fail(file.tooLarge, { message: sizeMessage(bytes, file.bytes) }),
      timeoutMs: uploads.timeoutMs,
      minBytesPerSecond: streams.minBytesPerSecond,
      idleTimeoutMs,
      budget: streamBudget,
      inflow,
      slots: streamSlots,
    }
  }

  /** The time that a body takes to arrive has a limit of its own. */
  async function arrived(exchange: Exchange, body: RequestBody): Promise<void> {
    if (body.settled) return
    exchange.dueAt = Infinity
    await body.whenSettled()
    exchange.dueAt = performance.now() + answerTimeoutMs
  }

  /** To look at a large one takes its time: not in this turn, if another one was looked at in it. */
  function textIn(body: RequestBody): string | undefined | Promise<string> {
    const text = body.text()
    return text === undefined || text.length <= largeBodyCharacters ? text : largeBodies.wait().then(() => text)
  }

  async function bytesOf(exchange: Exchange, body: RequestBody): Promise<Buffer | undefined> {
    await arrived(exchange, body)
    return body.bytes()
  }

  async function textOf(exchange: Exchange, body: RequestBody): Promise<string | undefined> {
    await arrived(exchange, body)
    return textIn(body)
  }

  return {
    boundsOf,
    streamBoundsOf,

    /** Begins to take in the body of a request, if its route has one. */
    listen(prepared: PreparedRoute, exchange: Exchange): RequestBody | StreamedBody | undefined {
      if (prepared.stream) return exchange.listenToStream(prepared.stream, exchange.client.limited)
      if (!prepared.route.body) return undefined
      return exchange.listenToBody(prepared.body, prepared.body.budget ? exchange.client.limited : "")
    },

    /**
     * The text of a body, or its bytes where it is a form: nearly always there when it is wanted.
     * Before it is looked at by `valueOf`, the caller looks whether the client is still there.
     */
    contentOf({ route }: PreparedRoute, exchange: Exchange, body: RequestBody): Content | Promise<Content> {
      if (route.form) return bytesOf(exchange, body)
      return body.settled ? textIn(body) : textOf(exchange, body)
    },

    /** What it says, validated. */
    valueOf({ route }: PreparedRoute, exchange: Exchange, content: Content): unknown {
      if (route.form) return readForm(content as Buffer | undefined, exchange.contentType, route)
      const { maxDepth, maxValues } = limits.body
      const { bodyOptional: optional } = route
      return readBody(content as string | undefined, route.body!, { optional, maxDepth, maxValues })
    },

    /** Of a request that brings a file: its form, where it is read while it comes, and what does not count as its answer's time. */
    fileIn({ route }: PreparedRoute, exchange: Exchange, body: RequestBody | StreamedBody | undefined): FileIn {
      const file = route.form?.file
      if (!body || !file) return noFile
      const clock = new AnswerClock(exchange, answerTimeoutMs, uploads.timeoutMs, body.settled)
      const { longer } = clock
      if (!(body instanceof StreamedBody)) return { form: undefined, longer }
      if (!body.settled) body.onEnd(() => clock.whole())
      return { form: new FormStream(body, file.name, exchange.contentType, longer), longer }
    },

    /** Files are long: a refusal waits until its reader has stopped writing. */
    async drain(exchange: Exchange, body: RequestBody | StreamedBody): Promise<void> {
      exchange.dueAt = Infinity
      await body.drained()
    },
  }
}
