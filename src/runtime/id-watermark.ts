import type { Clock } from "../std/clock.ts"
import { shardBits, type WatermarkReport } from "../domain/core/id-watermark.ts"
import type { Shard } from "./shard.ts"

/** Of a turn whose events are not known to have arrived yet: no id that it made is of an earlier moment. */
export interface Hold {
  readonly at: number
}

/**
 * When ids are made, and up to when all that were made have arrived. It keeps:
 *   MARK1  A watermark that was announced holds: no id at or below it is created later, even if
 *       the clock jumps.
 */
export class IdWatermark {
  readonly #clock: Clock
  /** What was said last, and when that was: later ids are of a later moment. */
  #said = 0
  #saidAt = 0
  readonly #inLogs = new Set<Hold>()
  readonly #told = new Set<Hold>()

  constructor(clock: Clock) {
    this.#clock = clock
    this.#saidAt = clock.monotonic()
  }

  /** The moment of ids that are made now. A clock that falls back is gone on from at half its pace, so that it catches up. */
  moment(now = this.#clock.now()): number {
    return Math.max(now, this.#said + 1 + Math.floor((this.#clock.monotonic() - this.#saidAt) / 2)) // MARK1
  }

  /** Others may have said so much of this worker's shards before it had them. */
  beginAfter(moment: number): void {
    if (moment <= this.#said) return
    this.#said = moment
    this.#saidAt = this.#clock.monotonic()
  }

  /** Of a turn of this moment, until its events stand in the logs. `tells`: until what it tells other homes has arrived, too. */
  hold(now: number, tells: boolean): Hold {
    const hold = { at: Math.max(now, this.#said + 1) }
    this.#inLogs.add(hold)
    if (tells) this.#told.add(hold)
    return hold
  }

  appended(hold: Hold): void {
    this.#inLogs.delete(hold)
  }

  arrived(hold: Hold): void {
    this.#told.delete(hold)
  }

  /** MARK1: once this was asked for, it is kept to. */
  report(shards: Iterable<Shard>): WatermarkReport {
    const before = this.moment() - 1
    const inLogs = [...shards].filter(shard => shard.isPublished)
    let servers = before
    for (const { at } of this.#inLogs) servers = Math.min(servers, at - 1)
    // What waits for nothing but tells was appended later than it was decided.
    let directs: number | null = servers
    for (const { at } of this.#told) directs = Math.min(directs, at - 1)
    if (inLogs.some(shard => !shard.isNotified)) directs = null
    this.beginAfter(before)
    return { servers, directs, shards: shardBits(inLogs.map(shard => shard.number)) }
  }
}
