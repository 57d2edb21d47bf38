import { inBatches } from "../std/batches.ts"
import type { Snowflake } from "../contract/core/fields.ts"
import type { Clock } from "../std/clock.ts"
import { Receivers } from "../domain/messages/delivered.ts"
import { everyoneHolds, holdsIn } from "../domain/core/permissions.ts"
import type { ReceiverRow, ServerChannel, ViewingRules } from "../storage/messages/deliveries.ts"
import type { Storage } from "../storage/storage.ts"

export interface DeliveryCountsOptions {
  readonly storage: Pick<Storage, "deliveries">
  readonly clock: Clock
  /** Of all channels together. */
  readonly maxBytes?: number
}

type Asked = readonly { readonly id: Snowflake; readonly author_id: Snowflake }[]

interface Found {
  readonly receivers: Receivers | undefined
  /** What was counted with them: newest pages are the same ones time and again. */
  readonly counted: WeakMap<Asked, readonly number[]>
}

interface Kept {
  /** What was found last; absent: nothing yet, or it did not fit the cache. */
  found: Found | undefined
  looking: Promise<void> | undefined
  /**
   * Monotonic: when it was found, up to when that is as good as new, and up to when it is given
   * while it is looked up anew.
   */
  foundAt: number
  freshUntil: number
  staleUntil: number
  areMany: boolean
  bytes: number
}

/** A channel of a server, or of none. */
interface Place {
  readonly channel_id: Snowflake
  readonly server_id: Snowflake | null
}

interface Wanted {
  readonly kept: Kept
  readonly start: () => Promise<void>
}

/**
 * Milliseconds for which what was found is as good as new, and for which it is given to those who
 * would wait long for better.
 */
const freshFor = 250
const staleFor = 2_000
/**
 * Looking up receivers again takes at most one part in so many of a worker's time, of all channels
 * with many together.
 */
const share = 25
/** Fewer than these are looked up whenever somebody asks, and that often. */
const many = 1_000
const maxChannels = 1_000
/** Channels with fewer that one statement looks up. */
const batchSize = 100
const nothing: Found = { receivers: undefined, counted: new WeakMap() }
/** Nobody waits longer for a count: history is there without it. */
const waitMs = 500

/**
 * To how many people messages were delivered. Of each channel that is looked at the receivers are
 * kept for a moment, as two sorted arrays: a page costs two searches a message, and one statement
 * now and then, however many messages and readers there are.
 */
export class DeliveryCounts {
  readonly #options: DeliveryCountsOptions
  readonly #load = inBatches((places: readonly Place[]) => this.#loadAll(places), batchSize)
  /** The one used longest ago is first. */
  readonly #kept = new Map<Snowflake, Kept>()
  #bytes = 0
  /** Channels with many, to be looked at one after the other. */
  #wanted: Wanted[] = []
  #isLooking = false
  #restUntil = -Infinity
  #isResting = false

  constructor(options: DeliveryCountsOptions) {
    this.#options = options
  }

  /**
   * Messages of one channel, which is in one server or in none. It never fails: what cannot be had
   * in time is what it was last.
   * @returns a count for each; 0 where none is known
   */
  async counts(channel: Snowflake, server: Snowflake | null, messages: Asked): Promise<readonly number[]> {
    if (messages.length === 0) return []
    const place = { channel_id: channel, server_id: server }
    const kept = this.#use(channel)
    const now = this.#options.clock.monotonic()
    if (!kept.found || kept.freshUntil <= now) {
      const looked = this.#renew(place, kept)
      if ((!kept.found || kept.staleUntil <= now) && this.#isSoon(kept, now)) await this.#within(looked)
    }
    const { receivers, counted } = kept.found ?? nothing
    let counts = counted.get(messages)
    if (!counts) counted.set(messages, (counts = messages.map(message => receivers?.countOf(message) ?? 0)))
    return counts
  }

  /** Whether it is worth waiting for: it is under way, or the next in turn and that not late. */
  #isSoon(kept: Kept, now: number): boolean {
    if (this.#wanted.every(wanted => wanted.kept !== kept)) return true
    // Who comes when its turn is there has no more reason to wait.
    kept.staleUntil = now + staleFor
    return !kept.found && this.#wanted.length === 1 && this.#restUntil - now < waitMs
  }

  /** Until it is done, or for as long as a reader may wait. */
  #within(looked: Promise<void>): Promise<void> {
    return Promise.race([looked, this.#options.clock.sleep(waitMs)])
  }

  /** Requests that come meanwhile share it. */
  #renew(place: Place, kept: Kept): Promise<void> {
    const start = () => this.#look(place, kept)
    // The failure was counted where it happened; the next request tries again.
    const finish = () => {
      kept.looking = undefined
    }
    kept.looking ??= (kept.areMany ? this.#inTurn({ kept, start }) : start()).then(finish, finish)
    return kept.looking
  }

  #inTurn(wanted: Wanted): Promise<void> {
    return new Promise((resolve, reject) => {
      const start = async () => wanted.start().then(resolve, reject)
      this.#wanted.push({ ...wanted, start })
      this.#next()
    })
  }

  /** The one that was not looked at for the longest time. */
  #next(): void {
    const { clock } = this.#options
    if (this.#isLooking || this.#wanted.length === 0) return
    const rest = this.#restUntil - clock.monotonic()
    if (rest > 0) {
      if (this.#isResting) return
      this.#isResting = true
      clock.after(rest, () => {
        this.#isResting = false
        this.#next()
      })
      return
    }
    const first = this.#wanted.reduce((one, other) => (other.kept.foundAt < one.kept.foundAt ? other : one))
    this.#wanted = this.#wanted.filter(other => other !== first)
    this.#isLooking = true
    first
      .start()
      .finally(() => {
        this.#isLooking = false
        this.#next()
      })
      .catch(() => {})
  }

  async #look(place: Place, kept: Kept): Promise<void> {
    const { clock } = this.#options
    const startedAt = clock.monotonic()
    let now = startedAt
    try {
      const receivers = await (kept.areMany ? this.#loadAll([place]).then(([found]) => found) : this.#load(place))
      kept.found = { receivers, counted: new WeakMap() }
      kept.areMany = (receivers?.count ?? 0) >= many
    } finally {
      now = clock.monotonic()
      // Where it failed, too.
      if (kept.areMany) this.#restUntil = Math.max(this.#restUntil, now) + (share - 1) * (now - startedAt)
    }
    kept.foundAt = now
    kept.freshUntil = now + freshFor
    kept.staleUntil = kept.areMany ? now + Math.max(staleFor, 2 * share * (now - startedAt)) : kept.freshUntil
    const bytes = kept.found.receivers?.bytes ?? 0
    // It may have been forgotten meanwhile.
    if (this.#kept.get(place.channel_id) !== kept) return
    this.#bytes += bytes - kept.bytes
    kept.bytes = bytes
    this.#release(kept)
  }

  /** As the one used last. */
  #use(channel: Snowflake): Kept {
    const kept = this.#kept.get(channel) ?? {
      found: undefined,
      looking: undefined,
      foundAt: -Infinity,
      freshUntil: -Infinity,
      staleUntil: -Infinity,
      areMany: false,
      bytes: 0,
    }
    this.#kept.delete(channel)
    this.#kept.set(channel, kept)
    if (this.#kept.size > maxChannels) {
      const [[oldest, { bytes }]] = this.#kept as unknown as [[Snowflake, Kept]]
      this.#kept.delete(oldest)
      this.#bytes -= bytes
    }
    return kept
  }

  /**
   * Releases what other requests hold, but keeps the note that there are many: the next request for
   * them waits its turn.
   */
  #release(used: Kept): void {
    const { maxBytes = 64 * 1024 * 1024 } = this.#options
    if (this.#bytes <= maxBytes) return
    for (const kept of this.#kept.values()) {
      if (kept === used || kept.bytes === 0) continue
      this.#bytes -= kept.bytes
      kept.bytes = 0
      kept.found = undefined
      if (this.#bytes <= maxBytes) return
    }
  }

  /**
   * Who may view each channel now; undefined where nobody is counted. Hits of a search are in many
   * channels: one statement asks for all.
   */
  async #loadAll(asked: readonly Place[]): Promise<(Receivers | undefined)[]> {
    const { deliveries } = this.#options.storage
    const places = [...new Map(asked.map(place => [place.channel_id, place])).values()]
    const inServers = places.filter((place): place is ServerChannel => place.server_id !== null)
    const directs = places.flatMap(({ server_id, channel_id }) => (server_id === null ? [channel_id] : []))
    const [ofServers, ofDirects] = await Promise.all([
      inServers.length === 0 ? new Map<Snowflake, Uint8Array[]>() : this.#ofServers(inServers),
      deliveries.ofDirects(directs),
    ])
    const blocks = new Map<Snowflake, Uint8Array[]>(directs.map(channel => [channel, []]))
    for (const { channel_id, members } of ofDirects) blocks.get(channel_id)!.push(members)
    for (const [channel, viewers] of ofServers) blocks.set(channel, viewers)
    return asked.map(({ channel_id }) => {
      const found = blocks.get(channel_id)
      return found && new Receivers(found)
    })
  }

  async #ofServers(places: readonly ServerChannel[]): Promise<Map<Snowflake, Uint8Array[]>> {
    const { deliveries } = this.#options.storage
    const rules = await deliveries.viewing(places)
    const rows = await deliveries.ofServers(
      places.flatMap(place => {
        const found = rules.get(place.channel_id)
        if (!found) return []
        const { server, overrides } = found
        // A member's roles do not tell the overrides that name the member, nor whether the member
        // is the owner.
        const named = [server.owner_id, ...overrides.flatMap(each => (each.type === "member" ? [each.target_id] : []))]
        const byRoles = overrides.length > 0 || !everyoneHolds(server, "channels.view")
        return [{ ...place, byRoles, named }]
      }),
    )
    const viewers = new Map<Snowflake, Uint8Array[]>([...rules.keys()].map(channel => [channel, []]))
    for (const row of rows) viewers.get(row.channel_id)!.push(...viewersAmong(rules.get(row.channel_id)!, row))
    return viewers
  }
}

function viewersAmong({ server, overrides }: ViewingRules, { roles, named, members }: ReceiverRow): Uint8Array[] {
  const mayView = (user_id: Snowflake) => holdsIn(server, overrides, { user_id, roles }, "channels.view")
  if (!named) return mayView("0") ? [members] : []
  const each: Uint8Array[] = []
  for (let at = 0; at < members.length; at += 24)
    if (mayView(members.readBigInt64BE(at).toString())) each.push(members.subarray(at, at + 24))
  return each
}
