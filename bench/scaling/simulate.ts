/**
 * A simulation of the cost model, message by message: what is sent passes the queues of its worker,
 * of Redis, of its channel's owner, of PostgreSQL, and of every worker that holds a session which
 * hears it. Each worker and each Redis master does one thing at a time; PostgreSQL has cores; an
 * owner commits what came while its last commit was out.
 *
 * What the measurement cannot tell apart is assumed, and changes where the load lies, not how much
 * there is: half of a post's and of an append's cost in Node.js is at the worker where it arrives,
 * half at the owner or reader. The network between hosts costs no time here.
 */
import { Histogram, type LatencySummary } from "../statistics.ts"
import type { Costs } from "./costs.ts"

/** Servers of one size. */
export interface Kind {
  readonly count: number
  /** Online members. */
  readonly size: number
  /** Messages in a second, in each. */
  readonly rate: number
}

export interface World {
  readonly name: string
  readonly workers: number
  readonly redisMasters: number
  readonly postgresCores: number
  readonly sessions: number
  readonly kinds: readonly Kind[]
  /** In which people write; the run ends when all of it has arrived. */
  readonly seconds: number
  readonly seed: number
}

export interface Outcome {
  /** Until everything had arrived. */
  readonly seconds: number
  readonly messages: number
  readonly deliveries: number
  /** Share of the time in which it is busy: the mean of all, and the busiest one. */
  readonly worker: { readonly mean: number; readonly most: number }
  readonly redis: { readonly mean: number; readonly most: number }
  readonly postgres: number
  /** Cores that are busy. */
  readonly cores: { readonly node: number; readonly postgres: number; readonly redis: number }
  /** Milliseconds from the post to its answer, and to the frames at each worker. */
  readonly answered: LatencySummary
  readonly delivered: LatencySummary
}

/**
 * Sizes of servers as cities have them: the i-th has an i-th of the largest one's members, and the
 * rest of the memberships is in servers of the smallest size.
 */
export function zipfServers(options: {
  memberships: number
  largest: number
  smallest: number
  rate: (size: number) => number
}): Kind[] {
  const { memberships, largest, smallest, rate } = options
  const kinds: Kind[] = []
  let left = memberships
  for (let i = 1; largest / i > smallest && left > smallest; i++) {
    const size = Math.min(Math.floor(largest / i), left)
    kinds.push({ count: 1, size, rate: rate(size) })
    left -= size
  }
  if (left >= smallest) kinds.push({ count: Math.floor(left / smallest), size: smallest, rate: rate(smallest) })
  return kinds
}

/** A queue that does one thing at a time. */
class Line {
  #freeAt = 0
  /** Microseconds. */
  busy = 0

  /** `slow`: what is left of it after what it has to do anyway. @returns when it is done */
  take(now: number, cost: number, slow = 1): number {
    this.busy += cost
    this.#freeAt = Math.max(now, this.#freeAt) + cost / slow
    return this.#freeAt
  }
}

interface Message {
  readonly sentAt: number
  readonly size: number
  readonly owner: number
  readonly entry: number
}

/** Things to come, the soonest first. */
class Agenda {
  readonly #times: number[] = []
  readonly #acts: (() => void)[] = []

  at(time: number, act: () => void): void {
    const [times, acts] = [this.#times, this.#acts]
    let i = times.length
    times.push(time)
    acts.push(act)
    while (i > 0) {
      const parent = (i - 1) >> 1
      if (times[parent]! <= time) break
      times[i] = times[parent]!
      acts[i] = acts[parent]!
      i = parent
    }
    times[i] = time
    acts[i] = act
  }

  /** Does everything. @returns when the last of it was done */
  run(): number {
    const [times, acts] = [this.#times, this.#acts]
    let now = 0
    while (times.length > 0) {
      now = times[0]!
      const act = acts[0]!
      const time = times.pop()!
      const last = acts.pop()!
      const size = times.length
      if (size > 0) {
        let i = 0
        for (;;) {
          let child = 2 * i + 1
          if (child >= size) break
          if (child + 1 < size && times[child + 1]! < times[child]!) child++
          if (times[child]! >= time) break
          times[i] = times[child]!
          acts[i] = acts[child]!
          i = child
        }
        times[i] = time
        acts[i] = last
      }
      act()
    }
    return now
  }
}

export function simulate(costs: Costs, world: World): Outcome {
  const random = randomFrom(world.seed)
  const any = (n: number) => Math.floor(random() * n)
  const { workers: W, redisMasters: R, postgresCores: P } = world
  const workers = Array.from({ length: W }, () => new Line())
  const masters = Array.from({ length: R }, () => new Line())
  const cores = new Float64Array(P)
  let postgresBusy = 0
  const agenda = new Agenda()
  const [answered, delivered] = [new Histogram(), new Histogram()]
  let messages = 0
  let deliveries = 0

  // What each has to do whether or not anybody writes, as shares of a core.
  const sessionsOfOne = world.sessions / W
  const background = {
    worker: (costs.idle.node + costs.session.node * sessionsOfOne) / 1e6,
    redis: (costs.idle.redis * W + costs.session.redis * world.sessions) / 1e6 / R,
    postgres: (costs.idle.postgres * W + costs.session.postgres * world.sessions) / 1e6 / P,
    // All signs of life are under one key.
    signs: (costs.pair * W * W) / 1e6,
  }
  const left = (share: number) => Math.max(0.02, 1 - share)
  const onWorker = (w: number, now: number, cost: number) => workers[w]!.take(now, cost, left(background.worker))
  const onMaster = (m: number, now: number, cost: number) =>
    masters[m]!.take(now, cost, left(background.redis + (m === 0 ? background.signs : 0)))
  const masterOf = (w: number) => w % R

  const onPostgres = (now: number, cost: number): number => {
    let soonest = 0
    for (let c = 1; c < P; c++) if (cores[c]! < cores[soonest]!) soonest = c
    postgresBusy += cost
    return (cores[soonest] = Math.max(now, cores[soonest]!) + cost / left(background.postgres))
  }
  // What a commit takes beyond the work: the disk, the way there and back.
  const single = costs.message.node + costs.commit.node + costs.message.postgres + costs.commit.postgres
  const wait = Math.max(0, costs.commitMs * 1_000 - single - costs.message.redis)

  /**
   * Of a large server every worker holds a share; of a small one, those where its sessions happen
   * to be.
   */
  function holdersOf(size: number): Iterable<[worker: number, sockets: number]> {
    if (size > 4 * W) return Array.from({ length: W }, (_, w) => [w, size / W] as [number, number])
    const counts = new Map<number, number>()
    for (let n = 0; n < size; n++) {
      const w = any(W)
      counts.set(w, (counts.get(w) ?? 0) + 1)
    }
    return counts
  }

  const lanes = Array.from({ length: W }, () => ({ waiting: [] as Message[], isOut: false }))
  function commit(owner: number, now: number): void {
    const lane = lanes[owner]!
    if (lane.isOut || lane.waiting.length === 0) return
    const batch = lane.waiting.splice(0, 200)
    lane.isOut = true
    const sent = onWorker(owner, now, costs.commit.node)
    const done = onPostgres(sent, costs.commit.postgres + batch.length * costs.message.postgres) + wait
    agenda.at(done, () => {
      lane.isOut = false
      for (const message of batch) publish(owner, message, done)
      commit(owner, done)
    })
  }

  function publish(owner: number, message: Message, now: number): void {
    const back = message.entry === owner ? now : onWorker(message.entry, now, costs.ask.node / 2)
    answered.record((back - message.sentAt) / 1_000)
    for (const [reader, sockets] of holdersOf(message.size)) {
      const appended = onWorker(owner, now, costs.worker.node / 2)
      agenda.at(appended, () => {
        const read = onMaster(masterOf(reader), appended, costs.worker.redis)
        agenda.at(read, () => {
          const out = onWorker(reader, read, costs.worker.node / 2 + sockets * costs.socket.node)
          deliveries += sockets
          delivered.record((out - message.sentAt) / 1_000)
        })
      })
    }
  }

  function arrive(message: Message): void {
    messages++
    const { owner } = message
    const taken = onWorker(message.entry, message.sentAt, costs.message.node / 2)
    agenda.at(taken, () => {
      const admitted = onMaster(any(R), taken, costs.message.redis)
      agenda.at(admitted, () => {
        const enqueue = (now: number) => {
          const turned = onWorker(owner, now, costs.message.node / 2)
          agenda.at(turned, () => {
            lanes[owner]!.waiting.push(message)
            commit(owner, turned)
          })
        }
        if (message.entry === owner) return enqueue(admitted)
        const asked = onWorker(message.entry, admitted, costs.ask.node / 4)
        agenda.at(asked, () => {
          const there = onMaster(masterOf(owner), asked, costs.ask.redis)
          agenda.at(there, () => enqueue(onWorker(owner, there, costs.ask.node / 4)))
        })
      })
    })
  }

  const weights = world.kinds.map(({ count, rate }) => count * rate)
  const total = weights.reduce((sum, weight) => sum + weight, 0)
  const pick = pickerOf(weights, random)
  // A large server's owner does not change; small ones are so many that any worker may own the
  // next.
  const owners = world.kinds.map(() => any(W))
  const quiet = world.seconds * 1e6
  const next = (now: number) => {
    const at = now - (Math.log(1 - random()) / total) * 1e6
    if (at > quiet) return
    agenda.at(at, () => {
      const kind = pick()
      const { count, size } = world.kinds[kind]!
      arrive({ sentAt: at, size, owner: count === 1 ? owners[kind]! : any(W), entry: any(W) })
      next(at)
    })
  }
  next(0)
  const end = Math.max(quiet, agenda.run())

  const share = (lines: readonly Line[], extra: (i: number) => number) => {
    const shares = lines.map((line, i) => line.busy / end + extra(i))
    return {
      mean: shares.reduce((sum, one) => sum + one, 0) / shares.length,
      most: shares.reduce((a, b) => Math.max(a, b)),
    }
  }
  const worker = share(workers, () => background.worker)
  const redis = share(masters, i => background.redis + (i === 0 ? background.signs : 0))
  const postgres = postgresBusy / end / P + background.postgres
  return {
    seconds: end / 1e6,
    messages,
    deliveries,
    worker,
    redis,
    postgres,
    cores: { node: worker.mean * W, postgres: postgres * P, redis: redis.mean * R },
    answered: answered.summary(),
    delivered: delivered.summary(),
  }
}

/** Picks an index by weight. */
function pickerOf(weights: readonly number[], random: () => number): () => number {
  const sums = new Float64Array(weights.length)
  let sum = 0
  for (const [i, weight] of weights.entries()) sums[i] = sum += weight
  return () => {
    const wanted = random() * sum
    let [low, high] = [0, sums.length - 1]
    while (low < high) {
      const middle = (low + high) >>> 1
      if (sums[middle]! > wanted) high = middle
      else low = middle + 1
    }
    return low
  }
}

/** Mulberry32: small, and the same everywhere. */
function randomFrom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}
