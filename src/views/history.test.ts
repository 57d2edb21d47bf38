import fc from "fast-check"
import { expect, test } from "vitest"
import type { MessageState } from "../domain/messages/messages.ts"
import { isNewestPage, type PagePlace } from "../domain/core/page-place.ts"
import { History } from "./history.ts"
import type { ViewSources } from "./sources.ts"

const messageOf = (id: number, content: string): MessageState => ({
  id: String(id),
  channel_id: "1",
  server_id: "2",
  author_id: String(id % 3),
  author_username: "ada",
  author_bot: false,
  author_badges: [],
  content,
  edited_at: null,
  reply_to_id: null,
  nonce: null,
})

/** A home and a database that answer when they are told to. */
class Scene {
  now = 0
  reads = 0
  version = 0
  mayRead = true
  readonly committed = new Map<number, MessageState>()
  readonly #held: (() => void)[] = []
  readonly history: History

  constructor() {
    const ask = async (_actor: unknown, _channel: string, input: Asked) => {
      // Turns are taken at once; what they answer comes later.
      const { mayRead, version } = this
      const isWanted = input.messages && (!input.version || input.version.known === `v${version}`)
      const marks = isWanted && { counts: input.messages.map(() => 0), named: [], readers: [], upTo: "0" }
      await this.#hold()
      if (!mayRead) throw new Error("access_denied")
      return { server_id: "2", ...(input.version && { version: `v${version}` }), ...(marks && { marks }) }
    }
    const page = async (_channel: string, place: PagePlace) => {
      this.reads++
      await this.#hold()
      const messages = this.literal(place)
      await this.#hold()
      return { messages, isCut: false }
    }
    this.history = new History({
      ask,
      clock: () => this.now,
      storage: { messages: { page } },
      delivered: { counts: async (_channel: string, _server: string, asked: unknown[]) => asked.map(() => 0) },
    } as unknown as ViewSources)
  }

  /** What the database answers. */
  literal({ limit, before }: PagePlace): MessageState[] {
    return [...this.committed.values()]
      .filter(({ id }) => before === undefined || Number(id) < Number(before))
      .toSorted((a, b) => Number(b.id) - Number(a.id))
      .slice(0, limit)
  }

  put(id: number, content: string | null): void {
    if (content === null) this.committed.delete(id)
    else this.committed.set(id, messageOf(id, content))
    this.version++
  }

  /** One thing that is waited for goes on; @returns whether there was one */
  async step(which = 0): Promise<boolean> {
    const [next] = this.#held.splice(which % Math.max(1, this.#held.length), 1)
    next?.()
    await new Promise(resolve => setImmediate(resolve))
    return next !== undefined
  }

  async shown(place: PagePlace = { limit: 50 }): Promise<(string | null)[][]> {
    const { json } = await this.history.page("9", "1", place)
    return (JSON.parse(Buffer.from(json as string).toString()) as MessageState[]).map(({ id, content }) => [
      id,
      content,
    ])
  }

  async settled(place?: PagePlace) {
    const shown = this.shown(place)
    shown.catch(() => {})
    while (await this.step());
    return shown
  }

  readonly #hold = () => new Promise<void>(resolve => this.#held.push(resolve))
}

interface Asked {
  readonly messages?: readonly unknown[]
  readonly version?: { readonly known?: string }
}

const contents = (rows: readonly MessageState[]) => rows.map(({ id, content }) => [id, content])

test("HIST1: whatever happens meanwhile, a page has all that was committed when it was asked for, and is what the database said at a moment after that", async () => {
  const act = fc.oneof(
    { weight: 3, arbitrary: fc.record({ kind: fc.constant("put" as const), id: fc.integer({ min: 1, max: 12 }) }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant("drop" as const), id: fc.integer({ min: 1, max: 12 }) }) },
    { weight: 4, arbitrary: fc.record({ kind: fc.constant("read" as const), id: fc.constantFrom(3, 8) }) },
    { weight: 8, arbitrary: fc.record({ kind: fc.constant("step" as const), id: fc.nat(5) }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant("wait" as const), id: fc.constantFrom(1, 6_000, 11_000) }) },
  )
  await fc.assert(
    fc.asyncProperty(fc.array(act, { minLength: 5, maxLength: 60 }), async acts => {
      const scene = new Scene()
      // What the database would have answered at each moment, by length.
      const states: Map<number, string>[] = []
      const note = () =>
        states.push(new Map([3, 8].map(limit => [limit, JSON.stringify(contents(scene.literal({ limit })))])))
      note()
      const reads: Promise<void>[] = []
      for (const [i, { kind, id }] of acts.entries()) {
        if (kind === "put") scene.put(id, `${i}`)
        else if (kind === "drop") scene.put(id, null)
        else if (kind === "wait") scene.now += id
        else if (kind === "step") await scene.step(id)
        else {
          const from = states.length - 1
          reads.push(
            scene.shown({ limit: id }).then(shown => {
              expect(states.slice(from).map(state => state.get(id))).toContain(JSON.stringify(shown))
            }),
          )
        }
        note()
      }
      while (await scene.step());
      await Promise.all(reads)
    }),
    { numRuns: 200 },
  )
})

test("a page that has not changed is not read again, until names on it may be old", async () => {
  const scene = new Scene()
  scene.put(1, "one")
  expect(await scene.settled()).toEqual([["1", "one"]])
  for (let i = 0; i < 5; i++) expect(await scene.settled()).toEqual([["1", "one"]])
  expect(scene.reads).toBe(1)
  scene.put(2, "two")
  expect(await scene.settled()).toEqual([
    ["2", "two"],
    ["1", "one"],
  ])
  expect(scene.reads).toBe(2)
  scene.now += 10_000
  await scene.settled()
  expect(scene.reads).toBe(3)
})

test("those who ask for the same page at the same time share one reading", async () => {
  const scene = new Scene()
  scene.put(1, "one")
  const all = Array.from({ length: 20 }, () => scene.shown())
  while (await scene.step());
  for (const shown of await Promise.all(all)) expect(shown).toEqual([["1", "one"]])
  expect(scene.reads).toBe(1)
})

test("a reader who was let in is shown no further page once they may not read it", async () => {
  const scene = new Scene()
  scene.put(1, "one")
  const older = { limit: 50, before: "2" }
  expect(await scene.settled(older)).toEqual([["1", "one"]])
  scene.mayRead = false
  await expect(scene.settled(older)).rejects.toThrow("access_denied")
  const { reads } = scene
  await expect(scene.settled(older)).rejects.toThrow("access_denied")
  expect(scene.reads).toBe(reads)
})

test("nothing is read for somebody who may not read it", async () => {
  const scene = new Scene()
  scene.put(1, "one")
  await scene.settled()
  scene.mayRead = false
  for (const place of [{ limit: 50 }, { limit: 50, before: "2" }])
    await expect(scene.settled(place)).rejects.toThrow("access_denied")
  expect(scene.reads).toBe(1)
  expect(isNewestPage({ limit: 50, before: "2" })).toBe(false)
})
