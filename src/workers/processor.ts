import type { z } from "zod"
import type { Ask } from "../actors/runtime/actor.ts"
import type { ErrorCode } from "../contract/errors.ts"
import { Failure } from "../contract/errors.ts"
import type { JobName, jobs } from "../contract/jobs.ts"
import type { Blobs } from "../storage/blobs.ts"
import type { Storage } from "../storage/storage.ts"
import type { Mailer } from "./mail.ts"

export interface JobTools {
  readonly ask: Ask
  readonly storage: Pick<
    Storage,
    | "automod"
    | "servers"
    | "channels"
    | "messages"
    | "sessions"
    | "oneTimeTokens"
    | "oauth"
    | "invites"
    | "tells"
    | "placement"
    | "voice"
    | "users"
    | "settings"
    | "mails"
    | "accountDeletion"
    | "exports"
    | "files"
  >
  readonly blobs: Blobs
  readonly mailer: Mailer
  /** Unix milliseconds. */
  readonly now: () => number
  /** The process ends: long work stops at the next good place and throws; the job is run again. */
  readonly signal: AbortSignal
}

/** What a job does. It may run twice, at the same time even, so what it does again changes nothing. */
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
