/** Who is there, as others are told of it and as they find it when they ask (P14). */
import { GatewayClient } from "../../client/gateway.ts"
import { clusterConfig } from "../../cluster.config.ts"
import { allIntents } from "../../src/contract/core/intents.ts"
import { until } from "../kit/until.ts"
import type { PresenceView, Recorder } from "./history.ts"
import type { Person, Population } from "./people.ts"
import type { System } from "./system.ts"

/**
 * After the end of a session or of its resume window it takes so long at most, on a machine that has
 * other work.
 */
const defaultLateMs = 30_000
const { resumeWindowMs } = clusterConfig.gateway
const chosenStatus = "dnd"
/** Of a millisecond. */
const nanoseconds = 1e6
/** What a window takes to begin: the server sees the loss, or the death of the worker. */
const noticeMs = 5_000

/**
 * Ghosts are lost at the first fault that ends their connection, and come back only after all
 * others have ended. Leavers stay until everything is well again. The observer listens all the
 * time.
 */
export class Presences {
  readonly #population: Population
  readonly #system: Pick<System, "urls" | "hosts">
  readonly #lateMs: number
  readonly #observer: GatewayClient
  readonly #clients = new Map<Person, GatewayClient>()
  readonly #recorder: Recorder
  /** By the history's clock. */
  readonly #lostAt = new Map<Person, number>()
  /** What the observer was told, by user, since it asked. */
  readonly #told = new Map<string, string>()
  #asked = 0
  #isAsking = false

  constructor(
    population: Population,
    system: Pick<System, "urls" | "hosts">,
    recorder: Recorder,
    lateMs = defaultLateMs,
  ) {
    this.#population = population
    this.#lateMs = lateMs
    this.#recorder = recorder
    this.#system = system
    const { ghosts, leavers, observer } = population
    this.#observer = this.#connect(observer, true, allIntents)
    this.#observer.on("PRESENCE_UPDATE", ({ user_id, status }) => void this.#told.set(user_id, status))
    for (const leaver of leavers) this.#connect(leaver, true)
    for (const ghost of ghosts) {
      const client = this.#connect(ghost, false)
      client.on("close", () => {
        if (this.#clients.get(ghost) === client && !this.#lostAt.has(ghost)) this.#lostAt.set(ghost, recorder.now)
      })
    }
  }

  get isLive(): boolean {
    return [...this.#clients].every(([person, { state }]) => this.#lostAt.has(person) || state === "live")
  }

  /**
   * When all is well: asks once, as clients do after a resume. Then leavers change their status, and
   * in a patient run leave; both the observer must be told. Writes down what it was told, and what
   * others find when they ask.
   */
  async look({ patient }: { patient: boolean }): Promise<void> {
    const { ghosts, leavers, writers, observer } = this.#population
    // One whose connection never broke goes now.
    for (const ghost of ghosts) this.#lose(ghost)
    await this.#beginAsking()
    const online = [...writers, observer].map(person => [person, "online"] as const)

    await Promise.all(leavers.map(leaver => this.#choose(leaver, chosenStatus)))
    const chosen = leavers.map(person => [person, chosenStatus] as const)
    await this.#settle(new Map([...gone(ghosts.filter(this.#isOver)), ...chosen, ...online]))
    if (!patient) return

    for (const leaver of leavers) this.#lose(leaver)
    const all = [...ghosts, ...leavers]
    await this.#windowsOver(all)
    await this.#settle(new Map([...gone(all), ...online]))
  }

  /**
   * At the end of the run, when nobody else listens: ghosts and leavers come back, and must be seen.
   * Then all sessions but the observer's end: by a logout, or in a patient run by the death of every
   * worker, after which nobody comes back. Whatever was broken before, and whatever Redis lost,
   * nobody may look online then.
   */
  async end({ patient }: { patient: boolean }): Promise<void> {
    const { ghosts, leavers, writers, observer } = this.#population
    const back = [...ghosts, ...leavers]
    for (const person of back) this.#comeBack(person)
    await until("who came back is live", () => this.isLive, { timeoutMs: defaultLateMs })
    await this.#beginAsking()
    await Promise.all(back.map(person => this.#choose(person, chosenStatus)))
    const here = [observer, "online"] as const
    await this.#settle(new Map([...back.map(person => [person, chosenStatus] as const), here]))

    const all = [...back, ...writers]
    if (patient) {
      for (const person of all) this.#lose(person)
      await this.#killAll()
      await this.#windowsOver(all)
      await until("the observer is live", () => this.isLive, { timeoutMs: defaultLateMs })
    } else await Promise.all(all.map(person => this.#logOut(person)))
    await this.#settle(new Map([...gone(all), here]))
  }

  /** Once: what the observer was told counts from here on. It asks again when its session is another. */
  async #beginAsking(): Promise<void> {
    if (this.#isAsking) return
    this.#isAsking = true
    const { ghosts, leavers, writers } = this.#population
    const askAll = () => Promise.all([...ghosts, ...leavers, ...writers].map(person => this.#ask(person)))
    await askAll()
    for (const name of ["ready", "resumed"] as const) this.#observer.on(name, () => void askAll())
  }

  async #windowsOver(people: readonly Person[]): Promise<void> {
    await until("every window is over", () => people.every(this.#isOver), {
      timeoutMs: 2 * resumeWindowMs,
      everyMs: 500,
    })
  }

  async #killAll(): Promise<void> {
    const fault = { type: "fault", id: 0, name: "all workers killed, in the end", kind: "all" } as const
    this.#recorder.add({ ...fault, phase: "begin", target: "all" })
    for (const host of this.#system.hosts)
      for (const { pid, slot } of await host.workers()) if (slot.startsWith("web")) host.signal(pid, "SIGKILL")
    this.#recorder.add({ ...fault, phase: "end" })
  }

  /** Waits until everybody looks as they are, or for so long that they should. */
  async #settle(truth: ReadonlyMap<Person, string>): Promise<void> {
    let views: PresenceView[] = []
    const isSo = async () => {
      views = await this.#views(truth)
      return views.every(({ truth, found }) => truth === found)
    }
    await until("everybody looks as they are", isSo, { timeoutMs: this.#lateMs, everyMs: 250 }).catch(() => {}) // the checker says who does not
    this.#recorder.add({ type: "presences", views })
  }

  /** The network between is gone, and they do not come back. */
  #lose(person: Person): void {
    if (!this.#lostAt.has(person)) this.#lostAt.set(person, this.#recorder.now)
    const client = this.#clients.get(person)
    client?.drop()
    client?.close()
  }

  #comeBack(person: Person): void {
    if (!this.#lostAt.delete(person)) return
    this.#connect(person, true)
  }

  readonly #isOver = (person: Person): boolean =>
    this.#recorder.now > this.#lostAt.get(person)! + (resumeWindowMs + noticeMs) * nanoseconds

  close(): void {
    for (const client of this.#clients.values()) client.close()
  }

  #connect(person: Person, autoReconnect: boolean, intents?: number): GatewayClient {
    const { urls } = this.#system
    const client = new GatewayClient({
      url: urls[this.#clients.size % urls.length]!,
      token: person.token,
      autoReconnect,
      ...(intents !== undefined && { intents }),
      backoff: { firstMs: 100, maxMs: 1_000 },
      connectTimeoutMs: 3_000,
    })
    client.on("error", () => {})
    this.#clients.set(person, client)
    client.connect().catch(() => {})
    return client
  }

  async #views(truth: ReadonlyMap<Person, string>): Promise<PresenceView[]> {
    const { observer } = this.#population
    const asked = await Promise.all(
      [...truth].map(async ([person, wanted]) => ({
        by: "asked" as const,
        client: person.name,
        truth: wanted,
        found: await this.#statusOf(person),
      })),
    )
    const told = [...truth].flatMap(([{ id, name }, wanted]) =>
      id === observer.id ? [] : [{ by: "told" as const, client: name, truth: wanted, found: this.#told.get(id) ?? "" }],
    )
    return [...asked, ...told]
  }

  #choose(person: Person, status: string): Promise<void> {
    return this.#call("PUT", "users/@me/presence", person, { status })
  }

  /** A token that is not known any more is that of a logout whose answer was lost. */
  #logOut(person: Person): Promise<void> {
    return this.#call("POST", "auth/logout", person, undefined, 401)
  }

  /** Until it is answered: all is well by now. */
  async #call(method: string, path: string, { token }: Person, body?: object, also?: number): Promise<void> {
    const { urls } = this.#system
    const attempt = async () => {
      const answer = await fetch(`${urls[0]!}/api/v1/${path}`, {
        method,
        headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
        ...(body && { body: JSON.stringify(body) }),
        signal: AbortSignal.timeout(7_000),
      })
      await answer.arrayBuffer()
      return answer.ok || answer.status === also
    }
    await until(`${method} ${path} is answered`, () => attempt().catch(() => false), {
      timeoutMs: defaultLateMs,
      everyMs: 250,
    })
  }

  /** What an answer says counts unless the observer was told something meanwhile. */
  async #ask(person: Person): Promise<void> {
    this.#told.delete(person.id)
    const found = await this.#statusOf(person)
    if (!this.#told.has(person.id)) this.#told.set(person.id, found)
  }

  /** On a connection of its own, so on any worker; "" where there is no answer. */
  async #statusOf({ id }: Person): Promise<string> {
    const { urls } = this.#system
    const url = `${urls[this.#asked++ % urls.length]!}/api/v1/users/${id}/presence`
    try {
      const answer = await fetch(url, {
        headers: { authorization: `Bearer ${this.#population.observer.token}`, connection: "close" },
        signal: AbortSignal.timeout(7_000),
      })
      return answer.ok ? ((await answer.json()) as { status: string }).status : ""
    } catch {
      return ""
    }
  }
}

const gone = (people: readonly Person[]) => people.map(person => [person, "offline"] as const)
