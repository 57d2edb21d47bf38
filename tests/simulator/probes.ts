import type { History } from "./history.ts"
import type { Timeline } from "./timeline.ts"
import type { SimulatedWorker } from "./worker.ts"

/** Milliseconds from one to the next; and after which one that was neither taken nor given back is lost. */
const everyMs = 100
const lostAfterMs = 3_000

interface Probe {
  readonly sentAt: number
  isTaken: boolean
  isUnsent: boolean
}

/** Numbered notices between all workers of one host, which show what the bus does with them: BUS1 to BUS3. */
export class Probes {
  readonly #timeline: Timeline
  readonly #history: History
  readonly #sent = new Map<string, Probe[]>()
  /** By sender and receiver: the last that was taken. */
  readonly #taken = new Map<string, number>()
  /** Those that take probes, or did. */
  readonly #incarnations = new Set<string>()

  constructor(timeline: Timeline, history: History) {
    this.#timeline = timeline
    this.#history = history
  }

  begin(worker: SimulatedWorker): void {
    const { bus, membership } = worker.node
    this.#incarnations.add(worker.id)
    bus.onNotice<number>("probe", (number, from) => this.#take(worker, from, number))
    const { host } = membership.self
    const again = () => {
      if (worker.isDraining) return
      for (const member of membership.members())
        if (member.id !== worker.id && member.host === host && this.#incarnations.has(member.id))
          this.#send(worker, member.id)
      for (const other of this.#incarnations)
        if (membership.isDead(other) && bus.road?.hasConnection(other))
          this.#history.note("BUS3", `${worker.id} has a connection to ${other}, which it knows is dead`)
      this.#timeline.after(everyMs, worker, again)
    }
    again()
  }

  #send(worker: SimulatedWorker, to: string): void {
    const pair = `${worker.id} ${to}`
    const sent = this.#sent.get(pair) ?? []
    this.#sent.set(pair, sent)
    const probe = { sentAt: this.#timeline.now, isTaken: false, isUnsent: false }
    worker.node.bus.notify(to, "probe", sent.push(probe), () => {
      probe.isUnsent = true
    })
  }

  #take(worker: SimulatedWorker, from: string, number: number): void {
    const pair = `${from} ${worker.id}`
    const probe = this.#sent.get(pair)![number - 1]!
    const before = this.#taken.get(pair) ?? 0
    if (number <= before && worker.node.bus.road && !worker.node.membership.isDead(from))
      this.#history.note("BUS1", `${worker.id} takes the probe ${number} of ${from} after ${before}`)
    this.#taken.set(pair, Math.max(before, number))
    probe.isTaken = true
    this.#history.count("probes")
  }

  /** What was lost without a word between two that live still. */
  noteLost(living: readonly SimulatedWorker[]): void {
    const workers = new Map(living.map(worker => [worker.id, worker]))
    for (const [pair, sent] of this.#sent) {
      const [from, to] = pair.split(" ") as [string, string]
      const [sender, receiver] = [workers.get(from), workers.get(to)]
      if (!sender || !receiver) continue
      const lost = sent.findIndex(
        ({ sentAt, isTaken, isUnsent }) => !isTaken && !isUnsent && this.#timeline.now - sentAt > lostAfterMs,
      )
      if (lost < 0) continue
      const ageMs = Math.round(this.#timeline.now - sent[lost]!.sentAt)
      const last = `of ${sent.length} the last that was taken is ${this.#taken.get(pair) ?? 0}`
      const facts = `${ageMs} ms ago; ${last}; ${stateOf(sender, to)}; ${stateOf(receiver, from)}`
      this.#history.note("BUS2", `the probe ${lost + 1} of ${from} did not reach ${to}: ${facts}`)
    }
  }
}

function stateOf({ id, isDraining, pausedUntil, node: { bus, membership } }: SimulatedWorker, other: string): string {
  const road = bus.road?.hasConnection(other) ? "a connection" : "no connection"
  const draining = isDraining ? ", draining" : ""
  const dead = membership.isDead(other) ? ", which it holds for dead" : ""
  return `${id} has ${road} to ${other}${dead}${draining}, paused until ${Math.round(pausedUntil)}`
}
