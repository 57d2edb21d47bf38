import type { IncomingMessage } from "node:http"
import {
  isBlobKey,
  uploadFiles,
  type Blobs,
  type LinkOptions,
  type OpenFile,
  type Portion,
  type StoredFile,
} from "./blobs.ts"
import {
  BucketRequests,
  readBytes,
  refusal,
  sendable,
  type BucketObservers,
  type Call,
  type Sendable,
} from "./bucket-requests.ts"
import { PartFile } from "./part-file.ts"
import { elementsOf, textOf } from "./xml-text.ts"
import type { BucketPlace } from "../../domain/core/file-places.ts"

/** A store joins the parts of a file at no less than this. */
const joinedBytesPerMs = 64 * 1024
const joiningMs = 3_000
/** Whether a file is there after all is asked once. */
const lookMs = 1_000
const checkMs = 800
const maxConcurrentDeletes = 8

type Answered = Awaited<ReturnType<BucketRequests["ask"]>>

export interface BucketBlobsOptions extends BucketObservers {
  /** Of this machine, where parts wait to be sent. */
  readonly partsFolder: string
  /** Clients are sent to the store itself, by links that hold for so many seconds. */
  readonly linkSeconds?: number | undefined
}

/** Keeps them in a bucket. What is there under a key is whole, as an object appears at once. */
export function openBucketBlobs(place: BucketPlace, options: BucketBlobsOptions): Blobs {
  const bucket = new BucketRequests(place, options)
  const pathOf = (key: string): string => {
    if (!isBlobKey(key)) throw new Error(`${JSON.stringify(key)} is no key of a file`)
    return place.path + key
  }
  const { linkSeconds } = options

  async function open(key: string, portion?: Portion): Promise<OpenFile | undefined> {
    const file = new ObjectReader(bucket, pathOf(key), portion)
    return (await file.begin()) ? file : undefined
  }

  async function deletePath(path: string): Promise<void> {
    await bucket.ask({ method: "DELETE", path, expects: [200, 204, 404], isRepeatable: true })
  }

  /** What was never finished would be kept, and paid for, for ever. */
  async function abortUploads(key: string): Promise<void> {
    const query = { uploads: "", prefix: place.prefix + key }
    const { text } = await bucket.ask({
      method: "GET",
      path: place.bucketPath,
      query,
      expects: [200, 404, 501],
      isRepeatable: true,
    })
    for (const upload of elementsOf(text, "Upload"))
      if (textOf(upload, "Key") === place.prefix + key)
        await abortUpload(bucket, place.path + key, textOf(upload, "UploadId") ?? "")
  }

  return {
    async put(key, bytes) {
      await putWhole(bucket, pathOf(key), sendable(bytes))
    },

    async putPieces(key, pieces) {
      const path = pathOf(key)
      const file = await PartFile.open(options.partsFolder)
      const upload = new Upload(bucket, path)
      try {
        let part = file.next()
        for await (const piece of pieces)
          for (let at = 0; at < piece.length;) {
            const added = await part.add(piece.subarray(at))
            at += added
            if (added > 0) continue
            await upload.send(part)
            part = file.next()
          }
        if (upload.hasBegun) await upload.finish(part)
        else await putWhole(bucket, path, part)
      } catch (error) {
        await upload.abandon()
        throw error
      } finally {
        await file.close()
      }
    },

    open,

    async get(key) {
      const file = await open(key)
      if (!file) return undefined
      try {
        const bytes = await file.read(0, file.size)
        if (bytes.length < file.size) throw refusal(new Error("the store sent less than it has"))
        return bytes
      } finally {
        await file.close()
      }
    },

    async delete(key) {
      const path = pathOf(key)
      if (key.endsWith("/")) {
        const together: Promise<void>[] = []
        for await (const found of listed(bucket, key)) {
          const one = deletePath(place.path + found.key)
          // It may fail while nobody waits for it, as the next page is asked for; those who wait below are told.
          one.catch(() => {})
          together.push(one)
          if (together.length === maxConcurrentDeletes) await Promise.all(together.splice(0))
        }
        await Promise.all(together)
        return
      }
      await deletePath(path)
      // Only these are so long that they come in parts.
      if (key.startsWith(uploadFiles)) await abortUploads(key)
    },

    list: () => listed(bucket, ""),

    async check() {
      await bucket.ask({
        method: "HEAD",
        path: place.bucketPath,
        expects: [200],
        isRepeatable: false,
        idleMs: checkMs,
      })
    },

    ...(linkSeconds !== undefined && {
      link: async (key: string, { contentType, disposition, cacheControl }: LinkOptions) =>
        bucket.signedUrl(
          pathOf(key),
          {
            "response-content-type": contentType,
            "response-content-disposition": disposition,
            "response-cache-control": cacheControl,
          },
          linkSeconds,
        ),
    }),

    close: () => bucket.close(),
  }
}

const octets = { "Content-Type": "application/octet-stream" }

async function putWhole(bucket: BucketRequests, path: string, body: Sendable): Promise<void> {
  await bucket.ask({ method: "PUT", path, headers: octets, body, expects: [200], isRepeatable: true })
}

async function abortUpload(bucket: BucketRequests, path: string, uploadId: string): Promise<void> {
  await bucket.ask({ method: "DELETE", path, query: { uploadId }, expects: [200, 204, 404], isRepeatable: true })
}

/**
 * A file that is sent in parts. The store shows nothing of it until it is finished. One part is under
 * way while the next is filled.
 */
class Upload {
  readonly #bucket: BucketRequests
  readonly #path: string
  readonly #etags: string[] = []
  readonly #ending = new AbortController()
  #id: string | undefined
  #size = 0
  #underWay: Promise<void> = Promise.resolve()

  constructor(bucket: BucketRequests, path: string) {
    this.#bucket = bucket
    this.#path = path
  }

  get hasBegun(): boolean {
    return this.#id !== undefined
  }

  /** Begins to send it, once the one before has arrived. */
  async send(part: Sendable): Promise<void> {
    this.#id ??= await this.#begin()
    await this.#underWay
    this.#size += part.size
    const number = this.#etags.push("")
    this.#underWay = this.#sendPart(number, part)
    // Who waits for it later is told; nobody may.
    this.#underWay.catch(() => {})
  }

  async finish(last: Sendable): Promise<void> {
    await this.send(last)
    await this.#underWay
    const parts = this.#etags.map(
      (etag, i) => `<Part><PartNumber>${i + 1}</PartNumber><ETag>${escaped(etag)}</ETag></Part>`,
    )
    const call: Call = {
      method: "POST",
      path: this.#path,
      query: { uploadId: this.#id! },
      headers: { "Content-Type": "application/xml" },
      body: sendable(`<CompleteMultipartUpload>${parts.join("")}</CompleteMultipartUpload>`),
      expects: [200],
      isRepeatable: false,
      idleMs: joiningMs + this.#size / joinedBytesPerMs,
    }
    try {
      // What goes wrong while the store has begun to answer is in the answer.
      const { text } = await this.#bucket.ask(call)
      if (text.includes("<Error>")) throw new Error(`the store did not join the parts: ${textOf(text, "Code")}`)
    } catch (error) {
      // It may be done although the answer was lost, or the one to its repetition says that there are no
      // parts any more.
      if ((await this.#storedSize().catch(() => undefined)) !== this.#size) throw refusal(error)
    }
    this.#id = undefined
  }

  /** Nothing is sent any more, and the store forgets what it has, if it can be told. */
  async abandon(): Promise<void> {
    this.#ending.abort(new Error("the upload was given up"))
    await this.#underWay.catch(() => {})
    const id = this.#id
    if (id === undefined) return
    // Nobody waits for it: what is left is removed with the key.
    abortUpload(this.#bucket, this.#path, id).catch(() => {})
  }

  /** One that was begun twice is empty, and goes with the key. */
  async #begin(): Promise<string> {
    const { text } = await this.#bucket.ask({
      method: "POST",
      path: this.#path,
      query: { uploads: "" },
      headers: octets,
      expects: [200],
      isRepeatable: false,
      signal: this.#ending.signal,
    })
    const id = textOf(text, "UploadId")
    if (id === undefined) throw refusal(new Error("the store gave the upload no id"))
    return id
  }

  async #sendPart(number: number, body: Sendable): Promise<void> {
    const { headers } = await this.#bucket.ask({
      method: "PUT",
      path: this.#path,
      query: { partNumber: String(number), uploadId: this.#id! },
      body,
      expects: [200],
      isRepeatable: true,
      signal: this.#ending.signal,
    })
    this.#etags[number - 1] = headers.etag ?? ""
  }

  async #storedSize(): Promise<number | undefined> {
    const { status, headers }: Answered = await this.#bucket.ask({
      method: "HEAD",
      path: this.#path,
      expects: [200, 404],
      isRepeatable: false,
      idleMs: lookMs,
    })
    return status === 200 ? Number(headers["content-length"]) : undefined
  }
}

const escaped = (text: string) =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;")

/**
 * An object that is read from front to back in one answer of the store. Where it is read from elsewhere,
 * or the answer broke, it is asked for again from there.
 */
class ObjectReader implements OpenFile {
  readonly #bucket: BucketRequests
  readonly #path: string
  /** The first byte that is not wanted; undefined: the whole of it is. */
  readonly #until: number | undefined
  #answer: IncomingMessage | undefined
  #at: number
  size = 0

  constructor(bucket: BucketRequests, path: string, portion: Portion | undefined) {
    this.#bucket = bucket
    this.#path = path
    this.#at = portion?.from ?? 0
    this.#until = portion && portion.from + portion.length
  }

  /** Whether there is such an object. */
  async begin(): Promise<boolean> {
    const range =
      this.#until === undefined && this.#at === 0
        ? undefined
        : `bytes=${this.#at}-${this.#until === undefined ? "" : this.#until - 1}`
    const answer = await this.#bucket.send({
      method: "GET",
      path: this.#path,
      headers: range === undefined ? {} : { Range: range },
      expects: [200, 206, 404],
      isRepeatable: true,
    })
    if (answer.statusCode === 404) {
      answer.resume()
      return false
    }
    const total = /\/(\d+)$/.exec(answer.headers["content-range"] ?? "")?.[1] ?? answer.headers["content-length"]
    // A range that was not minded would be taken for another part of the file.
    if ((range !== undefined && answer.statusCode !== 206) || total === undefined) {
      answer.destroy()
      throw refusal(new Error("the store does not answer a range with that range"))
    }
    this.size = Number(total)
    this.#answer = answer
    return true
  }

  async read(from: number, length: number): Promise<Buffer<ArrayBuffer>> {
    const wanted = Math.min(length, Math.max(0, Math.min(this.#until ?? this.size, this.size) - from))
    if (wanted === 0) return Buffer.alloc(0)
    for (let isAgain = false; ; isAgain = true)
      try {
        if (!this.#answer || this.#at !== from) {
          this.#drop()
          this.#at = from
          if (!(await this.begin())) throw new Error("the object is gone")
        }
        const bytes = await readBytes(this.#answer!, wanted)
        if (bytes.length < wanted) throw new Error("the store's answer broke off")
        this.#at += bytes.length
        this.#bucket.noteRead(bytes.length)
        return bytes
      } catch (error) {
        this.#drop()
        if (isAgain) throw refusal(error)
      }
  }

  async close(): Promise<void> {
    // An answer that was read to its end gives its connection back.
    if (this.#at === (this.#until ?? this.size)) this.#answer?.resume()
    else this.#drop()
    this.#answer = undefined
  }

  #drop(): void {
    this.#answer?.destroy()
    this.#answer = undefined
  }
}

/** All below a key, in order, a page at a time. */
async function* listed(bucket: BucketRequests, below: string): AsyncGenerator<StoredFile> {
  const { prefix, bucketPath } = bucket.place
  for (let token: string | undefined; ;) {
    const { text } = await bucket.ask({
      method: "GET",
      path: bucketPath,
      query: { "list-type": "2", prefix: prefix + below, ...(token !== undefined && { "continuation-token": token }) },
      expects: [200],
      isRepeatable: true,
    })
    for (const entry of elementsOf(text, "Contents")) {
      const key = textOf(entry, "Key") ?? ""
      if (key.startsWith(prefix + below)) yield { key: key.slice(prefix.length), size: Number(textOf(entry, "Size")) }
    }
    token = textOf(text, "NextContinuationToken")
    if (token === undefined || textOf(text, "IsTruncated") !== "true") return
  }
}
