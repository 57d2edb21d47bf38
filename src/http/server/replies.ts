import { unavailable } from "../../contract/core/errors.ts"
import type { Content, Streamed, Unread } from "../../contract/core/registry.ts"
import { AddressBudget } from "../../domain/core/address-budget.ts"
import type { Log } from "../../observability/log.ts"
import type { Metrics } from "../../observability/metrics.ts"
import { TurnBudget } from "../../std/turn-budget.ts"
import { json, maxPieceBytes, type Exchange } from "./exchange.ts"
import { isNamed } from "./request-headers.ts"

/** Limits of what goes out. */
export interface DownloadLimits {
  readonly downloads: {
    /** Of long answers, all together and those to one address. */
    readonly maxBytes: number
    readonly maxBytesPerAddress: number
    /**
     * How long a client may take to read the first byte of a long answer, and how long it may pause
     * after that.
     */
    readonly timeoutMs: number
  }
  readonly streams: { readonly minBytesPerSecond: number }
}

/** An answer up to this size is handed to the connection at once, without being counted. */
const uncountedBytes = 64 * 1024

/**
 * Of all long answers together: what the system copies in about a millisecond. A connection that reads nothing takes megabytes
 * all the same.
 */
const bytesPerTurn = 512 * 1024

/**
 * Sends answers. Whatever an answer is made of: if it is long it is in memory for as long as its
 * reader takes, so it counts against a budget of all readers and of the reader's address, and a
 * reader that takes too long is cut off.
 */
export function createReplies({ downloads, streams }: DownloadLimits, log: Log, metrics: Pick<Metrics, "http">) {
  const budget = new AddressBudget(downloads.maxBytes, downloads.maxBytesPerAddress)
  const turns = new TurnBudget(bytesPerTurn)

  async function withBudget(exchange: Exchange, bytes: number, send: () => Promise<void>): Promise<void> {
    if (exchange.over) return
    const holder = exchange.client.limited
    if (!budget.take(holder, bytes)) {
      metrics.http.overload.downloads.inc()
      throw unavailable("too many downloads at once")
    }
    metrics.http.replyBytesHeld.inc(bytes)
    try {
      await send()
    } finally {
      metrics.http.replyBytesHeld.dec(bytes)
      budget.give(holder, bytes)
    }
  }

  /** From now on the exchange is due by what its reader has taken. Call the result with that. */
  function paced(exchange: Exchange): (sentBytes: number) => void {
    const begunAt = performance.now()
    const noteProgress = (sentBytes: number) => {
      const expectedAt = begunAt + (sentBytes / streams.minBytesPerSecond) * 1000
      exchange.dueAt = Math.min(performance.now(), expectedAt) + downloads.timeoutMs
    }
    noteProgress(0)
    return noteProgress
  }

  const sendLong = (exchange: Exchange, status: number, contentType: string, body: Uint8Array): Promise<void> =>
    exchange.replyLong(status, contentType, body, { sent: paced(exchange), turns })

  /**
   * An answer that is complete in memory.
   * @param heldBytes what of it is there for this reader alone; absent: all of it
   */
  function sendWhole(
    exchange: Exchange,
    { status = 200, contentType, body }: { status?: number; contentType: string; body: string | Uint8Array },
    heldBytes?: number,
  ): Promise<void> | undefined {
    const bytes = Buffer.byteLength(body)
    if (bytes <= uncountedBytes || exchange.isHead) {
      exchange.reply(status, contentType, body, bytes)
      return undefined
    }
    const whole = typeof body === "string" ? Buffer.from(body) : body
    return withBudget(exchange, heldBytes ?? bytes, () => sendLong(exchange, status, contentType, whole))
  }

  async function sendContent(exchange: Exchange, content: Content): Promise<void> {
    const { contentType, body, headers = {} } = content
    const isKnown = headers["ETag"] !== undefined && isNamed(headers["ETag"], exchange.ifNoneMatch)
    if (!isKnown && !exchange.isHead && !(body instanceof Uint8Array))
      return "open" in body ? sendStreamed(exchange, content, body) : sendUnread(exchange, body)
    exchange.addHeaders(headers)
    if (isKnown) exchange.reply(304, contentType, "")
    else if (body instanceof Uint8Array) return sendWhole(exchange, { contentType, body })
    else exchange.reply(200, contentType, "", body.size)
  }

  /** A long file is read once there is budget for it. */
  async function sendUnread(exchange: Exchange, { size, read }: Unread): Promise<void> {
    if (size <= uncountedBytes) return sendContent(exchange, await read())
    return withBudget(exchange, size, async () => {
      const { contentType, body, headers = {} } = await read()
      exchange.addHeaders(headers)
      await sendLong(exchange, 200, contentType, body)
    })
  }

  /** The address is for this client and this moment. */
  function sendElsewhere(exchange: Exchange, address: string): void {
    exchange.addHeaders({ Location: address, "Cache-Control": "no-store" })
    exchange.reply(307, "text/plain", "")
  }

  /**
   * One piece is in memory at a time. A client that reads too slowly, a piece or the whole file, is
   * cut off.
   */
  const sendStreamed = (
    exchange: Exchange,
    content: Content,
    { size, open: openFile, link }: Streamed,
  ): Promise<void> =>
    withBudget(exchange, maxPieceBytes, async () => {
      try {
        const elsewhere = await link?.()
        if (elsewhere !== undefined) return sendElsewhere(exchange, elsewhere)
        const file = await openFile()
        try {
          exchange.addHeaders(content.headers ?? {})
          const pieces = { size, read: file.read }
          await exchange.replyPieces(content.status ?? 200, content.contentType, pieces, {
            sent: paced(exchange),
            turns,
          })
        } finally {
          await file.close()
        }
      } catch (error) {
        if (!exchange.over) throw error
        log.warn({ err: error, request_id: exchange.requestId }, "a file ended before it was sent")
      }
    })

  return {
    content: sendContent,

    json: (exchange: Exchange, body: string | Uint8Array): Promise<void> | undefined =>
      sendWhole(exchange, { contentType: json, body }),

    /** The same bytes for every reader: they are in memory anyway, but a slow reader still counts. */
    shared: (exchange: Exchange, contentType: string, body: Uint8Array): Promise<void> | undefined =>
      sendWhole(exchange, { contentType, body }, uncountedBytes),
  }
}
