import { fail, unavailable } from "../contract/core/errors.ts"
import type { Snowflake } from "../contract/core/fields.ts"
import { encodePicture, type PictureUse } from "../contract/core/jobs.ts"
import type { KeptPicture, PictureRefusal } from "../domain/core/pictures.ts"
import type { Metrics } from "../observability/metrics.ts"
import type { Clock, Timer } from "../std/clock.ts"
import type { Bus } from "./bus.ts"
import type { JobQueue } from "./job-queue.ts"

/** What a job says of a picture to the worker that waits for it. */
export type PictureAnswer =
  | { readonly request: string; readonly picture: KeptPicture }
  | { readonly request: string; readonly refusal: PictureRefusal }
export const pictureAnswered = "pictureAnswered"

export interface PictureRequestsOptions {
  readonly bus: Pick<Bus, "newId" | "onNotice">
  readonly jobs: Pick<JobQueue, "add">
  readonly self: string
  readonly clock: Clock
  readonly maxWaiting: number
  readonly maxWaitingPerUser: number
  readonly withinMs: number
  readonly metrics: Pick<Metrics, "pictures">
}

/**
 * Pictures that requests wait for: a job worker encodes each and tells the worker that asked. Job
 * and answer may be lost: then the request is refused, and nothing of it is done. The job may run
 * twice: each run keeps a file of its own, and the first answer counts. Files that no row names in
 * the end are swept.
 */
export class PictureRequests {
  readonly #options: PictureRequestsOptions
  readonly #waiting = new Map<string, (answer: PictureAnswer) => void>()
  /** How many of each user wait. */
  readonly #ofUsers = new Map<Snowflake, number>()

  constructor(options: PictureRequestsOptions) {
    this.#options = options
    options.bus.onNotice<PictureAnswer>(pictureAnswered, answer => this.#waiting.get(answer.request)?.(answer))
  }

  /** @param picture `source`: what its bytes are kept under; `folder`: below what the result is. */
  async encode(picture: { source: string; folder: string; use: PictureUse; user_id: Snowflake }): Promise<KeptPicture> {
    const { bus, jobs, self, clock, maxWaiting, maxWaitingPerUser, withinMs, metrics } = this.#options
    const { user_id } = picture
    const ofUser = this.#ofUsers.get(user_id) ?? 0
    if (this.#waiting.size >= maxWaiting) throw unavailable("too many pictures are waiting", 5)
    if (ofUser >= maxWaitingPerUser) throw unavailable("too many pictures of yours are waiting", 5)
    this.#ofUsers.set(user_id, ofUser + 1)
    const request = bus.newId()
    let timer: Timer | undefined
    const answered = new Promise<PictureAnswer>((resolve, reject) => {
      this.#waiting.set(request, resolve)
      timer = clock.after(withinMs, () => {
        metrics.pictures.unanswered.inc()
        reject(unavailable("no job worker has re-encoded the picture in time", 5))
      })
    })
    try {
      const added = jobs
        .add(
          encodePicture.at(
            { ...picture, asker: self, request, until: clock.now() + withinMs },
            { key: `picture:${request}` },
          ),
        )
        .catch((cause: unknown) => {
          throw unavailable("the picture cannot be handed to a job worker", 1, { cause })
        })
      const [answer] = await Promise.all([answered, added])
      if ("refusal" in answer) throw fail(answer.refusal)
      return answer.picture
    } finally {
      timer?.stop()
      this.#waiting.delete(request)
      const others = this.#ofUsers.get(user_id)! - 1
      if (others > 0) this.#ofUsers.set(user_id, others)
      else this.#ofUsers.delete(user_id)
    }
  }
}
