import type { z } from "zod"
import type { Ask } from "../runtime/actor.ts"
import type { ClassifierBackend } from "../contract/communities/automod.ts"
import type { AutomodClassifiers } from "../contract/communities/automod-settings.ts"
import type { ErrorCode } from "../contract/core/errors.ts"
import type { Snowflake } from "../contract/core/fields.ts"
import { Failure } from "../contract/core/errors.ts"
import type { JobName, jobs } from "../contract/core/jobs.ts"
import type { JobRequest } from "../contract/core/registry.ts"
import type { Status } from "../contract/social/presence.ts"
import type { Push, PushOutcome } from "../domain/messages/pushes.ts"
import type { Blobs } from "../storage/core/blobs.ts"
import type { FairPlaces } from "../std/fair-places.ts"
import type { OutlineLoads, OutlineSource } from "../storage/communities/outline-loads.ts"
import type { Storage } from "../storage/storage.ts"
import type { Scores } from "../domain/communities/automod-match.ts"
import type { EncodedPicture, PictureRefusal } from "../domain/core/pictures.ts"
import type { PictureAnswer } from "../cluster/picture-requests.ts"
import type { PictureUse } from "../contract/core/jobs.ts"
import type { PictureFacts, ThumbnailSide } from "../domain/messages/attachments.ts"
import type { Mailer } from "./mail.ts"

/** What can be made of a picture, and what it looks like. */
export interface Looks extends PictureFacts {
  readonly images: ReadonlyMap<ThumbnailSide, Uint8Array>
  /**
   * In 16 hex digits: of pictures that look alike they differ in few bits. Empty for what looks like
   * nothing.
   */
  readonly phash: string
}

/**
 * Decodes pictures and encodes them again, outside of this process's event loop. What takes longer than most
 * is "long" and not done, until it is asked for as such: then it may take some seconds.
 */
export interface PictureEncoder {
  encode(
    bytes: Uint8Array,
    use: PictureUse,
    isLong: boolean,
  ): Promise<(EncodedPicture & { readonly bytes: Uint8Array }) | { readonly refusal: PictureRefusal } | "long">
  /** Undefined: it is no picture, or too large. */
  lookAt(bytes: Uint8Array, isLong: boolean): Promise<Looks | undefined | "long">
}

export interface PictureTools extends PictureEncoder {
  /** Who decodes a picture has one of these; the holder is whose picture it is. */
  readonly places: FairPlaces
  /** Counts what became of a picture, by what it is for. */
  count(use: PictureUse | "thumbnail", outcome: "encoded" | PictureRefusal): void
  /** Takes so many from what may be made for a user; fails with `rate_limited`. */
  spend(user: Snowflake, thumbnails: number): Promise<void>
  /** Tells a worker what it waits for, as far as it can be told. */
  answer(worker: string, answer: PictureAnswer): void
}

/** Asks the classifiers of auto-moderation. */
export interface ClassifierTools {
  /** What operators have set, at most half a second old. */
  inForce(): Promise<{ readonly isOff: boolean; readonly classifiers: AutomodClassifiers }>
  /** Undefined: not now. `refused`: it does not take this text. */
  ask(
    backend: ClassifierBackend,
    content: string,
    payers: { readonly owner: Snowflake; readonly author: Snowflake },
  ): Promise<Scores | "refused" | undefined>
  /** Counts a message that no classifier has judged. */
  count(reason: "refused" | "late"): void
}

/** Pushes to browsers. */
export interface PushTools {
  send(
    browser: { readonly endpoint: string; readonly p256dh: string; readonly auth: string },
    push: Push,
  ): Promise<PushOutcome>
  /** As a test names it. */
  readonly serverName: string
  /** A further job that pushes. */
  add(job: JobRequest): Promise<void>
  /** Counts what became of one. */
  count(outcome: PushOutcome["kind"] | "late"): void
  /** A push service refuses what it is sent. */
  noteRefusal(endpoint: string, why: string): void
}

export interface JobTools {
  readonly ask: Ask
  readonly storage: Pick<
    Storage,
    | "automod"
    | "channels"
    | "messages"
    | "readState"
    | "notifications"
    | "notificationSettings"
    | "pushSubscriptions"
    | "reactions"
    | "polls"
    | "mentions"
    | "sessions"
    | "oneTimeTokens"
    | "operatorTrail"
    | "oauth"
    | "invites"
    | "tells"
    | "telemetry"
    | "placement"
    | "voice"
    | "users"
    | "settings"
    | "mails"
    | "accountDeletion"
    | "exports"
    | "files"
    | "uploads"
    | "storedPictures"
    | "thumbnails"
    | "uploadContents"
    | "uploadSessions"
    | "fileBlocks"
    | "accessUses"
  > & { readonly servers: Omit<Storage["servers"], keyof OutlineSource> }
  /** The only way to load servers: some are so large that a process takes few at a time. */
  readonly outlines: Pick<OutlineLoads, "load">
  /** Users as others see them; who is not in it is offline. */
  readonly presences: { of(users: readonly Snowflake[]): Promise<ReadonlyMap<Snowflake, { readonly status: Status }>> }
  /** What jobs of this process are at that takes long. */
  readonly running: {
    /** Servers of which many members are notified. */
    readonly massNotifications: Set<Snowflake>
    /** Upload sessions whose chunks are put together. */
    readonly assemblies: Set<string>
  }
  readonly blobs: Blobs
  readonly mailer: Mailer
  readonly pictures: PictureTools
  readonly classifiers: ClassifierTools
  readonly push: PushTools
  /** Unix milliseconds. */
  readonly now: () => number
  /** The process ends: long work stops at the next good place and throws; the job is run again. */
  readonly signal: AbortSignal
}

/** A job whose turn has not come: it is run again later, which is none of its tries. */
export class Deferral extends Error {
  override name = "Deferral"
  /** Until then; undefined: half of what it has waited already. */
  readonly waitMs: number | undefined
  constructor(message?: string, waitMs?: number) {
    super(message)
    this.waitMs = waitMs
  }
}

/**
 * What a job does. It may run twice, at the same time even, so what it does again changes nothing.
 */
export type Processor<Name extends JobName> = (
  tools: JobTools,
  data: z.output<(typeof jobs)[Name]["data"]>,
) => Promise<void>

/** The actor that was asked is gone, and what the job wanted to end went with it. */
export async function unlessGone(code: ErrorCode, asked: Promise<unknown>): Promise<void> {
  try {
    await asked
  } catch (error) {
    if (!(error instanceof Failure) || error.code !== code) throw error
  }
}
