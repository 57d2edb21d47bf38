import { unavailable } from "../../contract/core/errors.ts"
import type { Content, Streamed, Unread } from "../../contract/core/registry.ts"
import { limitedAddress } from "../../domain/core/client-address.ts"
import type { Log } from "../../observability/log.ts"
import { ByteBudget } from "./byte-budget.ts"
import { maxPieceBytes, type Exchange } from "./exchange.ts"
import { isNamed } from "./request-headers.ts"

/** Limits of what goes out. */
export interface DownloadLimits {
  readonly downloads: {
    /** Of long files, all together and those to one address. */
    readonly maxBytes: number
    readonly maxBytesPerAddress: number
    /** A client that has not read a file, or a piece of a streamed one, in this time is cut off. */
    readonly timeoutMs: number
  }
  readonly streams: { readonly minBytesPerSecond: number }
}

/** A file up to this size is sent without being counted. */
const uncountedBytes = 64 * 1024

/** Sends answers that are not JSON. */
export function createContents({ downloads, streams }: DownloadLimits, log: Log) {
  const budget = new ByteBudget(downloads.maxBytes, downloads.maxBytesPerAddress)

  async function withBudget(exchange: Exchange, bytes: number, send: () => Promise<void>): Promise<void> {
    const holder = limitedAddress(exchange.address)
    if (!budget.take(holder, bytes)) throw unavailable("too many downloads at once")
    try {
      await send()
    } finally {
      budget.give(holder, bytes)
    }
  }

  async function sendContent(exchange: Exchange, content: Content): Promise<void> {
    const { contentType, body, headers = {} } = content
    const isKnown = headers["ETag"] !== undefined && isNamed(headers["ETag"], exchange.ifNoneMatch)
    if (!isKnown && !exchange.isHead && !(body instanceof Uint8Array))
      return "open" in body ? sendStreamed(exchange, content, body) : sendUnread(exchange, body)
    exchange.addHeaders(headers)
    if (isKnown) exchange.reply(304, contentType, "")
    else if (body instanceof Uint8Array) exchange.reply(200, contentType, body)
    else exchange.reply(200, contentType, "", body.size)
  }

  /** A long file is in memory as long as its reader takes, so it counts. */
  async function sendUnread(exchange: Exchange, { size, read }: Unread): Promise<void> {
    if (size <= uncountedBytes) return sendContent(exchange, await read())
    return withBudget(exchange, size, async () => {
      const { contentType, body, headers = {} } = await read()
      exchange.addHeaders(headers)
      exchange.dueAt = performance.now() + downloads.timeoutMs
      await exchange.replyLong(contentType, body)
    })
  }

  /**
   * One piece is in memory at a time. A client that reads too slowly, a piece or the whole file, is
   * cut off.
   */
  const sendStreamed = (exchange: Exchange, content: Content, { size, open: openFile }: Streamed): Promise<void> =>
    withBudget(exchange, maxPieceBytes, async () => {
      try {
        const file = await openFile()
        try {
          exchange.addHeaders(content.headers ?? {})
          const begunAt = performance.now()
          const noteProgress = (sentBytes: number) => {
            const expectedAt = begunAt + (sentBytes / streams.minBytesPerSecond) * 1000
            exchange.dueAt = Math.min(performance.now(), expectedAt) + downloads.timeoutMs
          }
          noteProgress(0)
          const pieces = { size, read: file.read }
          await exchange.replyPieces(content.status ?? 200, content.contentType, pieces, noteProgress)
        } finally {
          await file.close()
        }
      } catch (error) {
        if (!exchange.over) throw error
        log.warn({ err: error, request_id: exchange.requestId }, "a file ended before it was sent")
      }
    })

  return sendContent
}
