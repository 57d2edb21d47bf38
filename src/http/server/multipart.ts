import { isUtf8 } from "node:buffer"
import type { z } from "zod"
import { fail, type ErrorCode, type Failure } from "../../contract/core/errors.ts"
import type { FormFile, Route } from "../../contract/core/registry.ts"
import { isUnsafe } from "./json-text.ts"
import { check, invalid } from "./validation.ts"

/** What a part says of itself beside its content is short, and a form has few parts. */
export const maxHeadBytes = 4_096
export const maxParts = 32

const typeShape = /^multipart\/form-data\s*(?:;|$)/i
const boundaryShape = /;\s*boundary=(?:"([^"\\\r\n]{1,70})"|([^\s";,]{1,70}))\s*(?:;|$)/i
const urlencodedShape = /^application\/x-www-form-urlencoded\s*(?:;|$)/i
const parameterShape = /;\s*(name|filename)=(?:"((?:[^"\\]|\\.)*)"|([^\s";]+))/gi

interface Part extends FormFile {
  readonly name: string
  readonly bytes: Buffer
}

/**
 * A body as the form that its route declares, validated. Parts that are not declared are left out;
 * of a repeated one the last counts.
 */
export function readForm(body: Buffer | undefined, contentType: string | undefined, route: Route): unknown {
  const schema = route.body as z.ZodObject
  const { file } = route.form!
  const values: Record<string, unknown> = {}
  const take = (name: string, text: string) => {
    if (isUnsafe(text)) throw fail("unsafe_text")
    values[name] = text
  }
  if (!file && urlencodedShape.test(contentType ?? "")) {
    for (const [name, text] of new URLSearchParams(textOf(body ?? Buffer.alloc(0))))
      if (Object.hasOwn(schema.shape, name)) take(name, text)
  } else
    for (const { name, bytes, filename, type } of partsOf(body, contentType)) {
      if (!Object.hasOwn(schema.shape, name)) continue
      if (name !== file?.name) take(name, textOf(bytes))
      else if (bytes.length > file.bytes) throw fileTooLarge(file)
      else values[name] = { bytes, filename, type } satisfies FormFile
    }
  return check("body", schema, values)
}

export const fileTooLarge = ({ bytes, tooLarge }: { bytes: number; tooLarge: ErrorCode }): Failure =>
  fail(tooLarge, { message: `File too large. Max size: ${sizeOf(bytes)}` })

export const sizeMessage = (bytes: number, limit: number): string => `File size ${bytes} exceeds limit ${limit}`

const sizeOf = (bytes: number) => (bytes >= 1_048_576 ? `${bytes / 1_048_576}MB` : `${bytes / 1024}KB`)

/**
 * The parts of `multipart/form-data` (RFC 7578), as views of the body. Written out here:
 * uWebSockets.js's `getParts` finds nothing behind a quoted boundary, takes what is cut off, and
 * reads memory that is not the body's.
 */
export function partsOf(body: Buffer | undefined, contentType?: string): Part[] {
  const boundary = boundaryOf(contentType)
  if (body === undefined) throw invalid([{ loc: ["body"], msg: "Field required", type: "missing" }])
  const delimiter = Buffer.from(`\r\n--${boundary}`, "latin1")
  const parts: Part[] = []
  // Whatever comes before the first delimiter is no part, and neither is what comes after the last.
  let at = body.subarray(0, delimiter.length - 2).equals(delimiter.subarray(2))
    ? delimiter.length - 2
    : afterNext(body, delimiter, 0)
  for (;;) {
    if (body.subarray(at, at + 2).equals(dashes)) return parts
    const head = endOfLine(body, at)
    const end = body.indexOf(delimiter, head)
    if (end < 0 || parts.length === maxParts) throw malformed()
    parts.push(partOf(body.subarray(head, end)))
    at = end + delimiter.length
  }
}

/** What stands between the parts of a form. */
export function boundaryOf(contentType = ""): string {
  const [, quoted, plain] = (typeShape.test(contentType) && boundaryShape.exec(contentType)) || []
  const boundary = quoted ?? plain
  if (boundary !== undefined) return boundary
  throw invalid([
    { loc: ["header", "Content-Type"], msg: "must be multipart/form-data with a boundary", type: "content_type" },
  ])
}

const dashes = Buffer.from("--")
const crlf = Buffer.from("\r\n")

/** Where a part's head begins: its delimiter's line may end in blanks. */
function endOfLine(body: Buffer, at: number): number {
  let end = at
  while (body[end] === 0x20 || body[end] === 0x09) end++
  if (!body.subarray(end, end + 2).equals(crlf)) throw malformed()
  // The line break stays: with it a head that is empty ends like any other.
  return end
}

function afterNext(body: Buffer, delimiter: Buffer, from: number): number {
  const found = body.indexOf(delimiter, from)
  if (found < 0) throw malformed()
  return found + delimiter.length
}

/** `bytes`: a line break, lines of head, an empty line, and the content. */
function partOf(bytes: Buffer): Part {
  const headEnd = bytes.subarray(0, maxHeadBytes).indexOf("\r\n\r\n")
  if (headEnd < 0) throw malformed()
  return { ...headOf(bytes.subarray(0, headEnd)), bytes: bytes.subarray(headEnd + 4) }
}

/** What a part says of itself. `bytes`: a line break and lines. */
export function headOf(bytes: Buffer): Omit<Part, "bytes"> {
  const head = textOf(bytes.subarray(2))
  if (isUnsafe(head)) throw fail("unsafe_text")
  const headers = new Map(
    head.split("\r\n").map(line => {
      const colon = line.indexOf(":")
      return [line.slice(0, Math.max(0, colon)).trim().toLowerCase(), line.slice(colon + 1).trim()]
    }),
  )
  const disposition = headers.get("content-disposition") ?? ""
  if (!/^form-data\s*(?:;|$)/i.test(disposition)) throw malformed()
  const found = new Map(
    [...disposition.matchAll(parameterShape)].map(([, name, quoted, plain]) => [
      name!.toLowerCase(),
      unescaped(quoted ?? plain!),
    ]),
  )
  const name = found.get("name")
  if (name === undefined) throw malformed()
  return { name, filename: found.get("filename"), type: headers.get("content-type") }
}

/**
 * Browsers write a quotation mark and line breaks with percent signs, others a backslash before it.
 */
const unescaped = (text: string): string =>
  text.replace(/%22|%0D|%0A|\\(["\\])/gi, (escape, character?: string) => character ?? decodeURIComponent(escape))

function textOf(bytes: Buffer): string {
  if (!isUtf8(bytes)) throw fail("bad_request")
  return bytes.toString("utf8")
}

export const malformed = () => invalid([{ loc: ["body"], msg: "is no multipart/form-data", type: "multipart_invalid" }])
