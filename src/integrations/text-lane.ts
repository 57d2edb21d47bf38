import { existsSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { Worker } from "node:worker_threads"
import type { Snowflake } from "../contract/core/fields.ts"
import type { TextQuestion, TextRule } from "../domain/communities/automod-texts.ts"
import type { Log } from "../observability/log.ts"
import type { Metrics } from "../observability/metrics.ts"
import { backoffMs } from "../std/backoff.ts"
import type { PatternTask, TextResult, TextTask } from "./text-task.ts"
import type { Payers, ThreadShares } from "./thread-shares.ts"

/**
 * A thread that judges texts, and what waits for it. It keeps:
 *   TEXT1  No text waits for one whose owner and author have used more of the threads lately, but
 *          for the one that is under way.
 *   TEXT2  Every question is answered: what is not judged in time counts as not broken if the
 *          owner's servers have used their share or the thread fails; else it is refused.
 *   TEXT3  Threads that fail before they answer are begun less and less often.
 *   TEXT4  When as many texts wait as may, one whose owner and author have far fewer of them finds
 *          a place: the last text of who has most gives way.
 */
export interface TextLaneOptions {
  readonly log: Log
  readonly metrics: Pick<Metrics, "automod">
  readonly bounds: TextLaneBounds
  readonly shares: ThreadShares
  readonly open?: (() => Worker) | undefined
}

export interface TextLaneBounds {
  /** Texts that wait: of one server, of one owner or author, and of all servers. */
  readonly waitingOfServer: number
  readonly waitingOfPayer: number
  readonly waiting: number
  /** Milliseconds that a text waits for the thread at most, and that the thread may take for it. */
  readonly waitMs: number
  readonly taskMs: number
  /** Rules that the thread keeps compiled, and the characters of their configs. */
  readonly rules: number
  readonly ruleCharacters: number
}

/** Milliseconds in which a thread has to load its code. */
const maxStartMs = 10_000
/** Before another thread begins after some that failed before they answered. */
const startPauses = { firstMs: 100, maxMs: 30_000 }
/** Mebibytes. A thread that needs more ends, and a new one begins. */
const heapMib = 160

export type Missed = "late" | "overloaded"

export interface Waiting extends Payers {
  readonly server: Snowflake
  readonly since: number
  /** What goes to the thread. */
  readonly task: (id: number) => TextTask | PatternTask
  readonly answer: (result: TextResult) => void
  /** Nobody knows: because of its own owner, or of a fault. */
  readonly giveUp: (reason: Missed) => void
  /** Nobody knows yet: because of others. */
  readonly refuse: (reason: Missed) => void
}

interface Running {
  readonly id: number
  readonly task: Waiting
  readonly deadline: NodeJS.Timeout
  readonly since: number
}

/** A rule that the thread keeps. */
interface KeptRule {
  readonly key: number
  readonly characters: number
}

/** Nothing is started before the first text. */
export class TextLane {
  readonly #log: Log
  readonly #metrics: Pick<Metrics, "automod">
  readonly #bounds: TextLaneBounds
  readonly #shares: ThreadShares
  readonly #start: () => Worker
  /** Of those who have used the same, servers take turns: the first of the map is the next. */
  readonly #queues = new Map<Snowflake, Waiting[]>()
  #waiting = 0
  #thread: Worker | undefined
  #running: Running | undefined
  #sweeper: NodeJS.Timeout | undefined
  /** Threads that ended one after the other without an answer, and the wait for the next. */
  #failures = 0
  #pause: NodeJS.Timeout | undefined
  #hasAnswered = false
  /** Whether there was an answer, and no thread has failed without one since. */
  #works = false
  #ids = 0
  #stopped = false
  /** What the thread has compiled, by config, the latest last. */
  readonly #kept = new Map<object, KeptRule>()
  #keptCharacters = 0
  #keys = 0
  #forget: number[] = []

  constructor({ log, metrics, bounds, shares, open = openThread }: TextLaneOptions) {
    this.#log = log
    this.#metrics = metrics
    this.#bounds = bounds
    this.#shares = shares
    this.#start = open
  }

  get waiting(): number {
    return this.#waiting
  }

  /** `isFirst`: before the texts of its server, as many as there are. */
  ask(waiting: Waiting, isFirst = false): void {
    const { server, owner, author } = waiting
    const queue = this.#queues.get(server) ?? []
    const { waitingOfServer, waitingOfPayer, waiting: waitingOfAll } = this.#bounds
    const most = isFirst ? 2 : 1
    const isOwn = queue.length >= most * waitingOfServer || this.#count("owner", owner) >= most * waitingOfPayer
    if (this.#stopped || isOwn) return waiting.giveUp("overloaded")
    if (
      this.#count("author", author) >= most * waitingOfPayer ||
      (this.#waiting >= most * waitingOfAll && !this.#giveWay(waiting))
    )
      return this.#refuse(waiting, "overloaded")
    // Who gave way may have been of the same server.
    const places = this.#queues.get(server) ?? []
    if (isFirst) places.unshift(waiting)
    else places.push(waiting)
    this.#queues.set(server, places)
    this.#waiting++
    this.#sweeper ??= setInterval(() => this.#sweep(), this.#bounds.waitMs / 4).unref()
    this.#next()
  }

  /** As long as no thread works, nobody is to blame. */
  #refuse(waiting: Waiting, reason: Missed): void {
    if (this.#works) waiting.refuse(reason)
    else waiting.giveUp(reason)
  }

  /** TEXT4 */
  #giveWay({ owner, author }: Waiting): boolean {
    const ofOwners = new Map<Snowflake, number>()
    const ofAuthors = new Map<Snowflake, number>()
    for (const queue of this.#queues.values())
      for (const { owner, author } of queue) {
        ofOwners.set(owner, (ofOwners.get(owner) ?? 0) + 1)
        ofAuthors.set(author, (ofAuthors.get(author) ?? 0) + 1)
      }
    const placesOf = (payers: Payers) => Math.max(ofOwners.get(payers.owner) ?? 0, ofAuthors.get(payers.author) ?? 0)
    // Who gives way still has more.
    let most = placesOf({ owner, author }) + 2
    let last: Waiting | undefined
    for (const queue of this.#queues.values())
      for (const waiting of queue) {
        const places = placesOf(waiting)
        if (places > most || (last && places === most && waiting.since >= last.since)) [last, most] = [waiting, places]
      }
    if (!last) return false
    this.#remove(last)
    const isOwners = ofOwners.get(last.owner)! > ofAuthors.get(last.author)!
    if (isOwners || this.#isOwnDoing(last, performance.now())) last.giveUp("overloaded")
    else this.#refuse(last, "overloaded")
    return true
  }

  #remove(waiting: Waiting): void {
    const rest = this.#queues.get(waiting.server)!.filter(other => other !== waiting)
    this.#waiting--
    // In its place: the server keeps its turn.
    if (rest.length > 0) this.#queues.set(waiting.server, rest)
    else this.#queues.delete(waiting.server)
  }

  #count(role: "owner" | "author", payer: Snowflake): number {
    let count = 0
    for (const queue of this.#queues.values()) for (const waiting of queue) if (waiting[role] === payer) count++
    return count
  }

  async stop(): Promise<void> {
    this.#stopped = true
    clearInterval(this.#sweeper)
    clearTimeout(this.#pause)
    for (const queue of this.#queues.values()) for (const { giveUp } of queue) giveUp("overloaded")
    this.#queues.clear()
    this.#waiting = 0
    await this.#end("overloaded")
  }

  #next(): void {
    if (this.#running || this.#stopped || this.#pause) return
    const task = this.#cheapest()
    if (!task) return
    const { server } = task
    this.#remove(task)
    const rest = this.#queues.get(server)
    // It has had its turn.
    this.#queues.delete(server)
    if (rest) this.#queues.set(server, rest)
    const id = ++this.#ids
    // A thread that begins has to load its code.
    const startMs = this.#thread ? 0 : maxStartMs
    const deadline = setTimeout(() => {
      this.#noteEnd({ server_id: server, task_ms: this.#bounds.taskMs }, "auto-moderation thread took too long")
      this.#end("late").catch(() => {})
    }, startMs + this.#bounds.taskMs)
    this.#running = { id, task, deadline, since: performance.now() }
    const message = task.task(id)
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- it is a thread, not a window
    this.#open().postMessage(message)
  }

  /** TEXT1 */
  #cheapest(): Waiting | undefined {
    const now = performance.now()
    let found: Waiting | undefined
    let least = Infinity
    for (const queue of this.#queues.values())
      for (const waiting of queue) {
        const used = this.#shares.used(waiting, now)
        if (used < least) [found, least] = [waiting, used]
      }
    return found
  }

  /** What goes to the thread to have a text judged. */
  textTask(id: number, { content, text, rules }: TextQuestion): TextTask {
    const numbered = rules.map(rule => this.#numbered(rule))
    return { id, content, text, rules: numbered, forget: this.#forget.splice(0) }
  }

  /** A rule with its key; with itself where the thread does not have it. */
  #numbered({ rule_type, config }: TextRule): TextTask["rules"][number] {
    const known = this.#kept.get(config)
    this.#kept.delete(config)
    const kept = known ?? { key: ++this.#keys, characters: JSON.stringify(config).length }
    this.#kept.set(config, kept)
    if (known) return [known.key]
    this.#keptCharacters += kept.characters
    // The newest stays, however large it is.
    while (
      (this.#kept.size > this.#bounds.rules || this.#keptCharacters > this.#bounds.ruleCharacters) &&
      this.#kept.size > 1
    ) {
      const [oldest, { key, characters }] = this.#kept.entries().next().value!
      this.#kept.delete(oldest)
      this.#keptCharacters -= characters
      this.#forget.push(key)
    }
    return [kept.key, { rule_type, config }]
  }

  /** TEXT2 */
  #sweep(): void {
    const now = performance.now()
    const before = now - this.#bounds.waitMs
    for (const [server, queue] of this.#queues) {
      const isLate = ({ since }: Waiting) => since < before
      const late = queue.filter(isLate)
      if (late.length === 0) continue
      const rest = queue.filter(waiting => !isLate(waiting))
      // In its place: the server keeps its turn.
      if (rest.length > 0) this.#queues.set(server, rest)
      else this.#queues.delete(server)
      this.#waiting -= late.length
      for (const waiting of late)
        if (this.#isOwnDoing(waiting, now)) waiting.giveUp("late")
        else this.#refuse(waiting, "late")
    }
    if (this.#waiting > 0) return
    clearInterval(this.#sweeper)
    this.#sweeper = undefined
  }

  /** Whether a text waits because of what the servers of its owner have used. */
  #isOwnDoing({ owner }: Waiting, now: number): boolean {
    const underWayMs = this.#running?.task.owner === owner ? now - this.#running.since : 0
    return this.#shares.isOver(owner, now, underWayMs)
  }

  #open(): Worker {
    if (this.#thread) return this.#thread
    const thread = this.#start()
    thread.unref()
    thread.on("message", (result: TextResult) => {
      if (this.#running?.id !== result.id) return
      clearTimeout(this.#running.deadline)
      const { task } = this.#running
      this.#running = undefined
      this.#noteAnswer()
      this.#shares.charge(task, result.tookMs, performance.now())
      task.answer(result)
      this.#next()
    })
    const gone = (error: unknown) => {
      if (this.#thread !== thread) return
      this.#noteEnd({ err: error }, "auto-moderation thread ended")
      this.#end("late").catch(() => {})
    }
    thread.on("error", gone)
    thread.on("messageerror", gone)
    thread.on("exit", code => gone(new Error(`exit code ${code}`)))
    return (this.#thread = thread)
  }

  #noteAnswer(): void {
    this.#hasAnswered = this.#works = true
    if (this.#failures > 0) this.#log.info({ failures: this.#failures }, "auto-moderation thread works again")
    this.#failures = 0
  }

  /** TEXT3 */
  #noteEnd(facts: object, what: string): void {
    this.#failures = this.#hasAnswered ? 0 : this.#failures + 1
    // Of threads that fail one after the other, the first is told.
    if (this.#failures <= 1) this.#log.warn(facts, what)
    if (this.#failures === 0) return
    this.#works = false
    const { firstMs, maxMs } = startPauses
    this.#pause = setTimeout(
      () => {
        this.#pause = undefined
        this.#next()
      },
      backoffMs(this.#failures - 1, firstMs, maxMs),
    ).unref()
  }

  /** The thread ends, with what it remembers; the next text begins another. */
  async #end(reason: "late" | "overloaded"): Promise<void> {
    const [thread, running] = [this.#thread, this.#running]
    this.#thread = this.#running = undefined
    this.#hasAnswered = false
    this.#kept.clear()
    this.#keptCharacters = 0
    this.#forget = []
    if (running) {
      clearTimeout(running.deadline)
      const now = performance.now()
      this.#shares.charge(running.task, now - running.since, now)
      running.task.giveUp(reason)
    }
    if (thread && !this.#stopped) this.#metrics.automod.threadsEnded.inc()
    const ended = thread?.terminate()
    this.#next()
    await ended
  }
}

const built = new URL("./text-thread.js", import.meta.url)
const isBuilt = existsSync(fileURLToPath(built))
/** In development and in tests the thread is not built: it compiles what it loads. */
const fromSource = `import("tsx/esm/api").then(({ register }) => {
  register()
  return import(${JSON.stringify(new URL("./text-thread.ts", import.meta.url).href)})
})`

const openThread = (): Worker =>
  new Worker(isBuilt ? built : fromSource, {
    eval: !isBuilt,
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: heapMib },
    // It needs none of the secrets.
    env: {},
  })
