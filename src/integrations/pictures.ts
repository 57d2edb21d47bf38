import type { Sharp, SharpOptions } from "sharp"
import { rgbaToThumbHash } from "thumbhash"
import type { PictureUse } from "../contract/core/jobs.ts"
import { limits } from "../contract/core/limits.ts"
import {
  isTooMuch,
  pictureRules,
  pictureTypeOf,
  type EncodedPicture,
  type PictureRefusal,
  type PictureRules,
  type PictureType,
} from "../domain/core/pictures.ts"
import { thumbnailSides, type PictureFacts, type ThumbnailSide } from "../domain/messages/attachments.ts"
import { framesOfPng, assemble, disassemble } from "./apng.ts"
import { scansOfJpeg } from "./jpeg-scans.ts"
import { perceptualHash } from "./perceptual-hashing.ts"

/** A picture that takes longer is refused. */
const timeoutSeconds = 15
/** One that takes longer is to be encoded among others that do. So is one whose header says that it will. */
const shortSeconds = 2
/** Pixels of all frames: as many as are decoded and encoded again in about a second. */
const shortFramePixels = 4_000_000

/**
 * libvips reads many formats, some of which are programs: it is left the four that are kept. What it
 * would keep of pictures that are decoded once, and its threads, are better left to the next one.
 */
async function loadSharp() {
  const { default: sharp } = await import("sharp")
  sharp.block({ operation: ["VipsForeignLoad"] })
  sharp.unblock({
    operation: [
      "VipsForeignLoadJpegBuffer",
      "VipsForeignLoadPngBuffer",
      "VipsForeignLoadNsgifBuffer",
      "VipsForeignLoadWebpBuffer",
    ],
  })
  sharp.cache(false)
  sharp.concurrency(1)
  return sharp
}
type SharpModule = Awaited<ReturnType<typeof loadSharp>>

const encoders: Readonly<Record<PictureType, (picture: Sharp) => Sharp>> = {
  "image/jpeg": picture => picture.jpeg({ quality: 85 }),
  "image/png": picture => picture.png(),
  // Half of the effort costs a few percent of bytes.
  "image/gif": picture => picture.gif({ effort: 4 }),
  "image/webp": picture => picture.webp({ quality: 85, effort: 2 }),
}

type Encoded = EncodedPicture & { readonly bytes: Buffer }

/**
 * Decodes pictures and encodes them again, on threads of libvips: what is not pixels, such as the
 * place where a photo was taken, or what else is hidden in a file, is gone after that.
 */
export function createPictures() {
  let loading: Promise<SharpModule> | undefined

  async function encode(
    bytes: Uint8Array,
    use: PictureUse,
    isLong: boolean,
  ): Promise<Encoded | { readonly refusal: PictureRefusal } | "long"> {
    const rules = pictureRules[use]
    const type = pictureTypeOf(bytes)
    if (type === undefined || !rules.types.includes(type)) return { refusal: "invalid_file" }
    const sharp = await (loading ??= loadSharp())
    const file = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
    try {
      if (type === "image/png" && rules.keepsApng && framesOfPng(file) > 0)
        return await encodeApng(sharp, file, rules, isLong)
      return await encodePlain(sharp, file, type, rules, isLong)
    } catch (error) {
      if (!isTimeout(error)) return { refusal: "invalid_file" }
      return isLong ? { refusal: "picture_too_large" } : "long"
    }
  }

  async function lookAt(bytes: Uint8Array, isLong: boolean): Promise<Looks | undefined | "long"> {
    const type = pictureTypeOf(bytes)
    if (type === undefined) return undefined
    const sharp = await (loading ??= loadSharp())
    const file = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
    try {
      return await looksOf(sharp, file, type, secondsFor(isLong))
    } catch (error) {
      return isTimeout(error) && !isLong ? "long" : undefined
    }
  }

  return { encode, lookAt }
}

interface Looks extends PictureFacts {
  /** Thumbnails, smaller ones first. */
  readonly images: ReadonlyMap<ThumbnailSide, Buffer>
  readonly phash: string
}

/** Pixels of a side of what a ThumbHash is made of, on the event loop: a hundred are the most it takes. */
const hashedSide = 48

const scansOf = (file: Buffer) => scansOfJpeg(file, limits.pictureScans + 1)

/** How many pixels of a picture may be decoded for its thumbnails: only what comes line by line is not in memory as a whole. */
function maxPixelsOf(file: Buffer, type: PictureType, isInterlaced: boolean): number {
  const scans = type === "image/jpeg" ? scansOf(file) : 1
  if (scans > limits.pictureScans) return 0
  const comesByLines = scans === 1 && !isInterlaced && (type === "image/jpeg" || type === "image/png")
  return comesByLines ? limits.thumbnailPixels : limits.picturePixels
}

/** The file is decoded once; all else is made of the largest thumbnail. */
async function looksOf(sharp: SharpModule, file: Buffer, type: PictureType, seconds: number) {
  const { autoOrient: upright, isProgressive } = await sharp(file, reading()).metadata()
  const { width, height } = upright
  if (width * height > maxPixelsOf(file, type, isProgressive)) return undefined
  const fitting = (picture: Sharp, side: number) =>
    picture.resize({ width: side, height: side, fit: "inside", withoutEnlargement: true })
  const largest = await fitting(sharp(file, reading()).timeout({ seconds }).autoOrient(), 512)
    .toColourspace("srgb")
    .ensureAlpha()
    .raw()
    .toBuffer({ resolveWithObject: true })
  const again = () =>
    sharp(largest.data, { raw: { width: largest.info.width, height: largest.info.height, channels: 4 } })
  const smaller = (side: number) => fitting(again(), side)
  const images = new Map<ThumbnailSide, Buffer>()
  for (const side of thumbnailSides) images.set(side, await smaller(side).webp({ quality: 75, effort: 2 }).toBuffer())
  const hashed = await smaller(hashedSide).raw().toBuffer({ resolveWithObject: true })
  const thumbhash = Buffer.from(rgbaToThumbHash(hashed.info.width, hashed.info.height, hashed.data)).toString("base64")
  return { width, height, thumbhash, images, phash: await perceptualHash(again()) }
}

/** What sharp's own errors of this kind begin with. */
const timedOut = "timeout"
const isTimeout = (error: unknown) => error instanceof Error && error.message.startsWith(timedOut)

const secondsFor = (isLong: boolean) => (isLong ? timeoutSeconds : shortSeconds)

/** Pixels are bounded by what the header says. A file that ends early is damaged. */
const reading = (more: SharpOptions = {}): SharpOptions => ({ failOn: "error", limitInputPixels: false, ...more })

async function encodePlain(sharp: SharpModule, file: Buffer, type: PictureType, rules: PictureRules, isLong: boolean) {
  // Reads the header. The frames of a GIF are counted for it, and not decoded.
  const { width, height, pages: frames = 1 } = await sharp(file, reading()).metadata()
  if (isTooMuch({ width, height, frames }, rules.maxSide)) return { refusal: "picture_too_large" } as const
  if (type === "image/jpeg" && scansOf(file) > limits.pictureScans) return { refusal: "picture_too_large" } as const
  const isMoving = frames > 1
  if (isMoving && !isLong && width * height * frames > shortFramePixels) return "long"
  let picture = sharp(file, reading(isMoving ? { animated: true } : {})).timeout({ seconds: secondsFor(isLong) })
  if (!isMoving) picture = picture.autoOrient()
  if (rules.fitSide)
    picture = picture.resize({
      width: rules.fitSide,
      height: rules.fitSide,
      fit: "inside",
      withoutEnlargement: true,
    })
  const { data, info } = await encoders[type](picture).toBuffer({ resolveWithObject: true })
  return {
    content_type: type,
    width: info.width,
    height: isMoving ? (info.pageHeight ?? info.height) : info.height,
    animated: type === "image/gif" || isMoving,
    bytes: data,
  }
}

/** libvips knows no frames of PNG files: each is encoded as a picture of its own. */
async function encodeApng(sharp: SharpModule, file: Buffer, rules: PictureRules, isLong: boolean) {
  const { width, height } = await sharp(file, reading()).metadata()
  const frames = framesOfPng(file)
  if (isTooMuch({ width, height, frames }, rules.maxSide)) return { refusal: "picture_too_large" } as const
  if (!isLong && width * height * frames > shortFramePixels) return "long"
  const endsAt = performance.now() + secondsFor(isLong) * 1_000
  const apart = disassemble(file, limits.pictureFrames)
  if (apart.frames.length !== frames) return { refusal: "invalid_file" } as const
  const again = (png: Buffer) => {
    const leftMs = endsAt - performance.now()
    if (leftMs <= 0) throw new Error(`${timedOut}: of all frames together`)
    return sharp(png, reading({ limitInputPixels: width * height }))
      .timeout({ seconds: Math.ceil(leftMs / 1_000) })
      .toColourspace("srgb")
      .ensureAlpha()
      .png()
      .toBuffer()
  }
  const encoded: { control: Buffer; png: Buffer }[] = []
  for (const { control, png } of apart.frames) encoded.push({ control, png: await again(png) })
  const still = apart.still && (await again(apart.still))
  const bytes = assemble({ ...apart, frames: encoded, still })
  return { content_type: "image/png", width, height, animated: true, bytes } as const
}
