import type { Connection, Sockets } from "../../src/cluster/socket-road.ts"
import type { Actor, Timeline } from "./timeline.ts"

/** One end of a connection. What the other end sent keeps its order and takes a while; some of it is lost when it breaks. */
class End implements Connection {
  onFrame: (frame: string) => void = () => {}
  onEnd: () => void = () => {}
  other!: End
  readonly owner: Actor
  readonly #timeline: Timeline
  #isOver = false
  #arrivesAt = 0
  /** Frames on their way to this end. */
  readonly coming: { lost: boolean }[] = []

  constructor(timeline: Timeline, owner: Actor) {
    this.#timeline = timeline
    this.owner = owner
  }

  /** Nothing reaches it before. */
  begins(at: number): void {
    this.#arrivesAt = at
  }

  get isOver(): boolean {
    return this.#isOver
  }

  send(frame: string): void {
    if (this.#isOver || this.owner.dead) return
    this.other.take(frame)
  }

  end(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.other.ends()
  }

  /** The kernel still hands over what it has; what had not left the process is lost. */
  destroy(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.other.loseSome()
    this.other.ends()
  }

  take(frame: string): void {
    const timeline = this.#timeline
    const one = { lost: false }
    this.coming.push(one)
    this.#arrivesAt = Math.max(this.#arrivesAt, timeline.now + this.#delayMs())
    timeline.at(this.#arrivesAt, this.owner, () => {
      this.coming.splice(this.coming.indexOf(one), 1)
      if (!one.lost && !this.#isOver) this.onFrame(frame)
    })
  }

  loseSome(): void {
    const kept = Math.floor(this.#timeline.random() * (this.coming.length + 1))
    for (const one of this.coming.slice(kept)) one.lost = true
  }

  /** After all that still comes; at times long after, because the process is busy with other things. */
  ends(): void {
    const timeline = this.#timeline
    if (timeline.chance(0.3)) this.#arrivesAt += timeline.between(0, 30)
    this.#arrivesAt = Math.max(this.#arrivesAt, timeline.now + this.#delayMs())
    timeline.at(this.#arrivesAt, this.owner, () => {
      if (this.#isOver) return
      this.#isOver = true
      this.onEnd()
    })
  }

  /** It breaks though both processes live. */
  break(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.loseSome()
    this.other.loseSome()
    this.other.ends()
    this.#timeline.after(0, this.owner, () => this.onEnd())
  }

  /** A process that is busy reads late. */
  #delayMs(): number {
    const timeline = this.#timeline
    return timeline.chance(0.03) ? timeline.between(1, 12) : timeline.between(0.02, 0.3)
  }
}

/** The sockets of one host's workers. */
export class SimulatedHost {
  readonly #timeline: Timeline
  readonly #listeners = new Map<string, { owner: Actor; accept: (connection: Connection) => void }>()
  readonly #ends = new Set<End>()

  constructor(timeline: Timeline) {
    this.#timeline = timeline
  }

  socketsOf(worker: string, owner: Actor): Sockets {
    return {
      listen: async accept => {
        this.#listeners.set(worker, { owner, accept })
      },
      connect: to => this.#connect(owner, to),
      close: () => void this.#listeners.delete(worker),
    }
  }

  #connect(owner: Actor, to: string): Promise<Connection> {
    const timeline = this.#timeline
    return new Promise((resolve, reject) => {
      timeline.after(timeline.between(0.05, 0.5), owner, () => {
        const listener = this.#listeners.get(to)
        if (!listener || listener.owner.dead) return reject(new Error("nobody listens"))
        const [here, there] = [new End(timeline, owner), new End(timeline, listener.owner)]
        here.other = there
        there.other = here
        this.#ends.add(here).add(there)
        // The kernel connects; the process hears of it when it gets to it.
        const acceptedAt = timeline.now + timeline.between(0.02, 0.3)
        there.begins(acceptedAt)
        timeline.at(acceptedAt, listener.owner, () => listener.accept(there))
        resolve(here)
      })
    })
  }

  /** All connections of a process, though it lives. @returns how many there were */
  breakOff(owner: Actor): number {
    let count = 0
    for (const end of this.#of(owner)) {
      end.break()
      count++
    }
    return count
  }

  processEnded(owner: Actor): void {
    for (const end of this.#of(owner)) end.destroy()
  }

  *#of(owner: Actor): Iterable<End> {
    for (const end of this.#ends)
      if (end.isOver && end.other.isOver) this.#ends.delete(end)
      else if (end.owner === owner && !end.isOver) yield end
  }
}
