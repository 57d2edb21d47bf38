import { promisify } from "node:util"
import { brotliCompress, constants, gzip } from "node:zlib"
import type { Page } from "../../web/pages.ts"

/** A page in one of the codings that clients may take it in. */
export interface PageVariant {
  readonly body: Uint8Array
  readonly coding: Coding | undefined
  /** Each coding has its own. */
  readonly etag: string
}

type Coding = "br" | "gzip"

/** Smaller pages are sent as they are. */
const minCompressedBytes = 1_024

const compress: Readonly<Record<Coding, (body: Buffer) => Promise<Buffer>>> = {
  // The highest quality takes seconds for a megabyte and saves a tenth more.
  br: body =>
    promisify(brotliCompress)(body, {
      params: { [constants.BROTLI_PARAM_QUALITY]: 7, [constants.BROTLI_PARAM_SIZE_HINT]: body.length },
    }),
  gzip: body => promisify(gzip)(body, { level: 9 }),
}

/** Pages are compressed when somebody first asks for them so, outside of the event loop, and kept. */
const kept = new WeakMap<Page, Map<Coding, Promise<PageVariant>>>()

export const isCompressed = ({ body }: Page): boolean => body.length >= minCompressedBytes

/** The variant that is shortest among those that `Accept-Encoding` allows. */
export async function variantOf(page: Page, acceptEncoding: string | undefined): Promise<PageVariant> {
  const coding = isCompressed(page) ? codingIn(acceptEncoding) : undefined
  if (!coding) return { body: page.body, coding: undefined, etag: page.etag }
  let variants = kept.get(page)
  if (!variants) kept.set(page, (variants = new Map()))
  let variant = variants.get(coding)
  if (!variant) {
    variant = compress[coding](page.body).then(body => ({ body, coding, etag: page.etag.replace(/"$/, `-${coding}"`) }))
    variants.set(coding, variant)
    variant.catch(() => variants.delete(coding)) // Who asks next has it made again.
  }
  return variant
}

/** The first of the codings that are offered here which the client takes. */
function codingIn(acceptEncoding: string | undefined): Coding | undefined {
  if (!acceptEncoding) return undefined
  const taken = new Map(
    acceptEncoding
      .toLowerCase()
      .split(",", 20)
      .map(part => {
        const [name = "", quality = ""] = part.split(";", 2)
        return [name.trim(), !/^\s*q\s*=\s*0(?:\.0*)?\s*$/.test(quality)] as const
      }),
  )
  return (["br", "gzip"] as const).find(coding => taken.get(coding) ?? taken.get("*") ?? false)
}
