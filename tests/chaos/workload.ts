/**
 * What clients do while things break. Open-loop: every act has its time, and none waits for
 * another. What is chosen comes from the seed; only what depends on answers (which message to edit)
 * is found when it is due.
 */
import { setTimeout as sleep } from "node:timers/promises"
import { limits } from "../../src/contract/core/limits.ts"
import { filled, type Recorder } from "./history.ts"
import { Moderation } from "./moderation.ts"
import type { Person, Population, Community } from "./people.ts"
import type { Random } from "./random.ts"
import { Reader } from "./reader.ts"
import type { Rest } from "./rest.ts"

type ActKind = "send" | "edit" | "delete" | "wander" | "bar" | "invite" | "mail" | "visit"

export interface Act {
  /** Milliseconds after the beginning. */
  at: number
  kind: ActKind
  person: number
  community: number
  /** Which of several: the message that is edited, the address that is used. */
  choice: number
  /** The acknowledged message is asked for on another connection. */
  verify: boolean
  fresh: boolean
}

const shares: readonly (readonly [ActKind, number])[] = [
  ["send", 0.77],
  ["edit", 0.07],
  ["delete", 0.04],
  ["wander", 0.06],
  ["bar", 0.03],
  ["invite", 0.01],
  ["mail", 0.01],
]

export function planActs(random: Random, milliseconds: number, perSecond: number): Act[] {
  const acts: Act[] = []
  for (let at = 0; at < milliseconds; at += (2 * random.next() * 1_000) / perSecond) {
    let share = random.next()
    const kind = shares.find(([, size]) => (share -= size) < 0)?.[0] ?? "visit"
    acts.push({
      at: Math.round(at),
      kind,
      person: random.below(1 << 16),
      community: random.below(1 << 16),
      choice: random.below(1 << 16),
      verify: random.next() < 0.5,
      fresh: random.next() < 0.5,
    })
  }
  return acts
}

interface Surroundings {
  run: string
  urls: readonly string[]
  population: Population
  rest: Rest
  recorder: Recorder
  random: Random
}

const maxUnderWay = 150
/** With 57 kB in UTF-8 nearly as large as may be. */
const fat = (name: string) => ({
  content: filled(name, limits.messageCharacters),
  embeds: [{ filler: "漢".repeat(limits.embed.allBytes / 3 - 100) }],
})
/** While messages are fat, one of so many is. */
const messagesPerFatOne = 4

/** One of so many mentions somebody. */
const messagesPerMention = 8

export class Workload {
  readonly #surroundings: Surroundings
  readonly #moderation: Moderation
  readonly #underWay = new Set<Promise<unknown>>()
  /** Acknowledged messages that nobody edited or deleted yet. */
  readonly #own: { person: Person; community: Community; id: string }[] = []
  readonly #away = new Set<Person>()
  /** Who waits for the answer to a request for a mail: of two at once one may be for nothing. */
  readonly #asking = new Set<string>()
  #bodies = 0
  #visits = 0
  #stopRetries = false
  #isFat = false
  #fatOnes = 0
  /** When a community last accepted a message. */
  readonly #accepted = new Map<Community, number>()
  /** Acts that did not fit any more. */
  shed = 0

  constructor(surroundings: Surroundings) {
    this.#surroundings = surroundings
    const { population, rest } = surroundings
    let asked = 0
    this.#moderation = new Moderation({
      population,
      rest,
      url: () => this.#url(asked++),
      send: (person, community) => this.#send(person, community, { choice: 0, fresh: true, verify: false }),
      isOver: () => this.#stopRetries,
    })
  }

  /** Resolves when the last act has begun; `settle` waits for their ends. */
  async run(acts: readonly Act[], ended: AbortSignal): Promise<void> {
    const began = performance.now()
    for (const act of acts) {
      const wait = began + act.at - performance.now()
      if (wait > 1) await sleep(wait, undefined, { signal: ended }).catch(() => {})
      if (ended.aborted) return
      // Clients that give up before they begin: without a bound, retries alone would keep an
      // overloaded machine down.
      if (this.#underWay.size >= maxUnderWay) this.shed++
      else this.#begin(this.#perform(act))
    }
  }

  /** Waits for what is under way; from then on nothing is tried again. */
  async settle(timeoutMs: number): Promise<void> {
    const late = setTimeout(() => (this.#stopRetries = true), timeoutMs)
    while (this.#underWay.size > 0) await Promise.all(this.#underWay)
    clearTimeout(late)
  }

  /** One more message in a community; the answer is its id, once it is acknowledged. */
  async sendLast(community: Community): Promise<string | undefined> {
    return this.#send(this.#surroundings.population.writers[0]!, community, { choice: 0, fresh: true, verify: false })
  }

  /** See `Scene`. */
  fatten(isFat: boolean): number {
    if (isFat && !this.#isFat) this.#fatOnes = 0
    this.#isFat = isFat
    return this.#fatOnes
  }

  /** Whether every community accepted a message after that time. */
  isWell(since: number): boolean {
    return this.#surroundings.population.communities.every(community => (this.#accepted.get(community) ?? 0) > since)
  }

  #begin(work: Promise<unknown>): void {
    this.#underWay.add(work)
    work.finally(() => this.#underWay.delete(work)).catch(() => {}) // `settle` meets its failure
  }

  async #perform(act: Act): Promise<unknown> {
    const { population } = this.#surroundings
    const community = population.communities[act.community % population.communities.length]!
    const writer = population.writers[act.person % population.writers.length]!
    switch (act.kind) {
      case "send":
        return this.#send(writer, community, act)
      case "edit":
        return this.#change(act, "edit")
      case "delete":
        return this.#change(act, "delete")
      case "wander":
        return this.#wander(population.wanderers[act.person % population.wanderers.length]!, act)
      case "bar":
        return this.#moderation.perform(act.choice)
      case "invite":
        return this.#invite(community, act)
      case "mail":
        return this.#mail(act)
      case "visit":
        return this.#visit(act)
    }
  }

  #url(choice: number): string {
    const { urls } = this.#surroundings
    return urls[choice % urls.length]!
  }

  /** Until it is acknowledged or refused, always with the same nonce. */
  async #send(
    person: Person,
    community: Community,
    { choice, fresh, verify }: Pick<Act, "choice" | "fresh" | "verify">,
  ): Promise<string | undefined> {
    const { run, rest, population } = this.#surroundings
    const others = population.writers.filter(writer => writer !== person)
    const mentioned = choice % messagesPerMention === 1 ? others[choice % others.length]!.id : undefined
    const name = `${run}:${person.name}:${++this.#bodies}`
    const body = mentioned === undefined ? name : `${name} <@${mentioned}>`
    const isFat = this.#isFat && choice % messagesPerFatOne === 2
    for (let attempt = 0; ; attempt++) {
      const url = this.#url(choice + attempt)
      const answer = await rest.call({
        client: person.name,
        session: person.login,
        token: person.token,
        action: {
          do: "send",
          channel: community.channel,
          server: community.server,
          body,
          nonce: name,
          ...(mentioned !== undefined && { mentions: mentioned }),
        },
        method: "POST",
        url: `${url}/api/v1/channels/${community.channel}/messages`,
        body: { ...(isFat ? fat(body) : { content: body }), nonce: name },
        fresh: fresh || attempt > 0,
      })
      if (answer.outcome === "fail") return undefined
      if (answer.outcome === "ok") {
        const { id } = answer.body as { id: string }
        if (isFat) this.#fatOnes++
        this.#own.push({ person, community, id })
        this.#accepted.set(community, performance.now())
        if (verify) this.#begin(this.#get(person, community, id, choice + 1))
        return id
      }
      if (this.#stopRetries) return undefined
      await sleep(Math.min(100 * 2 ** attempt, 1_000))
    }
  }

  async #get(person: Person, community: Community, message: string, choice: number): Promise<void> {
    await this.#surroundings.rest.call({
      client: person.name,
      session: person.login,
      token: person.token,
      action: { do: "get", channel: community.channel, message },
      method: "GET",
      url: `${this.#url(choice)}/api/v1/channels/${community.channel}/messages/${message}`,
      fresh: true,
    })
  }

  /** Once per message, so that its content is known whatever the outcome. */
  async #change(act: Act, how: "edit" | "delete"): Promise<void> {
    if (this.#own.length === 0) return
    const [own] = this.#own.splice(act.choice % this.#own.length, 1)
    const { person, community, id } = own!
    const { run, rest, population } = this.#surroundings
    const body = `${run}:edited:${++this.#bodies}`
    const { outcome } = await rest.call({
      client: person.name,
      session: person.login,
      token: person.token,
      action:
        how === "edit"
          ? { do: "edit", channel: community.channel, message: id, body }
          : { do: "delete", channel: community.channel, message: id },
      method: how === "edit" ? "PATCH" : "DELETE",
      url: `${this.#url(act.choice)}/api/v1/channels/${community.channel}/messages/${id}`,
      ...(how === "edit" && { body: { content: body } }),
      fresh: act.fresh,
    })
    // A wanderer may have left by then; a writer never does.
    const witness = population.writers.includes(person) ? person : population.writers[0]!
    if (how === "edit" && outcome === "ok" && act.verify) await this.#get(witness, community, id, act.choice + 1)
  }

  /** An invite that a job ends. */
  async #invite({ server, channel }: Community, act: Act): Promise<void> {
    const { rest, population } = this.#surroundings
    const { name, login, token } = population.writers[act.person % population.writers.length]!
    await rest.call({
      client: name,
      session: login,
      token,
      action: { do: "invite", server },
      method: "POST",
      url: `${this.#url(act.choice)}/api/v1/channels/${channel}/invites`,
      body: { max_age: 1 },
      fresh: act.fresh,
    })
  }

  /** Asks for the mail of somebody who forgot their password. */
  async #mail(act: Act): Promise<void> {
    const { rest, population } = this.#surroundings
    const { name, login, email } = population.writers[act.person % population.writers.length]!
    if (this.#asking.has(name)) return
    this.#asking.add(name)
    await rest.call({
      client: name,
      session: login,
      action: { do: "mail", address: email },
      method: "POST",
      url: `${this.#url(act.choice)}/api/v1/auth/password-reset/request`,
      body: { email },
      fresh: act.fresh,
    })
    this.#asking.delete(name)
  }

  /** Joins, writes, leaves, and tries to write once more, which must be refused. */
  async #wander(person: Person, act: Act): Promise<void> {
    if (this.#away.has(person)) return
    this.#away.add(person)
    const { rest, population } = this.#surroundings
    const community = population.communities[act.community % population.communities.length]!
    const call = (path: string, action: { do: "join" | "leave"; server: string }) =>
      rest.call({
        client: person.name,
        session: person.login,
        token: person.token,
        action,
        method: "POST",
        url: `${this.#url(act.choice)}/api/v1${path}`,
        fresh: true,
      })
    await call(`/channels/invites/${community.invite}`, { do: "join", server: community.server })
    // Not read back: by then it may have left.
    await this.#send(person, community, { ...act, verify: false })
    await sleep(act.choice % 500)
    for (let attempt = 0; attempt < 20; attempt++) {
      const { outcome } = await call(`/servers/${community.server}/leave`, { do: "leave", server: community.server })
      if (outcome !== "maybe" || this.#stopRetries) break
      await sleep(300)
    }
    await this.#send(person, community, { ...act, fresh: true, verify: false })
    this.#away.delete(person)
  }

  /** Signs in, listens, writes, signs out, and tries to go on, which must be refused. */
  async #visit(act: Act): Promise<void> {
    const { rest, recorder, population, run, random } = this.#surroundings
    const { guest, communities } = population
    if (this.#away.has(guest)) return
    this.#away.add(guest)
    try {
      const login = `guest#${++this.#visits}`
      const url = this.#url(act.choice)
      const base = { client: "guest", session: login }
      const signedIn = await rest.call({
        ...base,
        action: { do: "login" },
        method: "POST",
        url: `${url}/api/v1/auth/login`,
        body: { username: `guest_${run}`, password: guest.password },
        fresh: true,
      })
      const { token } = (signedIn.body ?? {}) as { token?: string }
      if (signedIn.outcome !== "ok" || token === undefined) return
      const community = communities[act.community % communities.length]!
      const person = { ...guest, login, token }
      const reader = new Reader({
        ...base,
        name: login,
        login,
        token,
        url,
        encoding: "json",
        steady: false,
        channels: [],
        recorder,
        rest,
        random: () => random.next(),
      })
      reader.start()
      await this.#send(person, community, { ...act, verify: false })
      await sleep(500 + (act.choice % 1_000))
      const after = { ...base, token, fresh: true }
      for (let attempt = 0; attempt < 20; attempt++) {
        const { outcome } = await rest.call({
          ...after,
          action: { do: "logout" },
          method: "POST",
          url: `${url}/api/v1/auth/logout`,
        })
        if (outcome !== "maybe" || this.#stopRetries) break
        await sleep(300)
      }
      await this.#send(person, community, { ...act, fresh: true, verify: false })
      for (const wait of [0, 1_100]) {
        await sleep(wait)
        await rest.call({ ...after, action: { do: "look" }, method: "GET", url: `${url}/api/v1/servers` })
      }
      await reader.end()
    } finally {
      this.#away.delete(guest)
    }
  }
}
