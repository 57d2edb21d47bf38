import type { Log } from "../observability/log.ts"
import { expireInvite } from "./expire-invite.ts"
import { expireSession } from "./expire-session.ts"
import { expireVoice } from "./expire-voice.ts"
import type { JobTools } from "./processor.ts"

/** Milliseconds between two sweeps, and how long a job has to do by itself what the sweep would do. */
const every = 60_000
const grace = 60_000
/** Rows of one look; looks of one sweep; actors asked at a time. */
const page = 1_000
const pages = 100
const atOnce = 16

/**
 * Does what no job did: PostgreSQL knows what is over, so nothing depends on the queue's memory. It runs the processors
 * itself, because the queue takes no second job under the key of one that failed for good. Several hosts may sweep at once.
 */
export function startSweep({ tools, log, now }: { tools: JobTools; log: Log; now: () => number }) {
  let timer: NodeJS.Timeout | undefined
  let running = Promise.resolve()
  // Hosts that started together need not look together.
  const schedule = (wait: number) => {
    timer = setTimeout(
      () => {
        running = sweep(tools, Math.floor((now() - grace) / 1000))
          .catch((error: unknown) => log.warn({ err: error }, "sweep failed"))
          .then(() => {
            if (!tools.signal.aborted) schedule(every)
          })
      },
      wait * (0.9 + 0.2 * Math.random()),
    )
  }
  schedule(5_000)

  return {
    /** After the tools' signal: resolves when nothing of it runs any longer. */
    async stop() {
      clearTimeout(timer)
      await running
    },
  }
}

/** `before`: Unix seconds. */
async function sweep(tools: JobTools, before: number): Promise<void> {
  const { storage, signal } = tools
  await endAll(
    () => storage.sessions.expired(before, page),
    ({ id, user_id }) => expireSession(tools, { user_id, session_id: id }),
    signal,
  )
  await endAll(
    () => storage.invites.expired(before, page),
    ({ code, server_id }) => expireInvite(tools, { server_id, code }),
    signal,
  )
  await endAll(
    () => storage.voice.expired(before, page),
    call => expireVoice(tools, call),
    signal,
  )
  await storage.voice.forgetUsage(Math.floor(before / 86_400))
  for (let looks = 0; looks < pages && !signal.aborted; looks++) if ((await storage.tells.forgetOld(page)) < page) break
  await storage.placement.forgetDead()
}

/** Page after page, as long as each is full and nothing was refused: what was ended is not on the next one. */
async function endAll<Row>(
  look: () => Promise<Row[]>,
  end: (row: Row) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  for (let looks = 0; looks < pages; looks++) {
    const rows = await look()
    const left = rows.values()
    const asking = Array.from({ length: atOnce }, async () => {
      for (const row of left) {
        signal.throwIfAborted()
        await end(row)
      }
    })
    const refused = (await Promise.allSettled(asking)).find(result => result.status === "rejected")
    if (refused) throw refused.reason
    if (rows.length < page) return
  }
}
