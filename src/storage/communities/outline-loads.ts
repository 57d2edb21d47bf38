import { fail, unavailable } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import type { Clock } from "../../std/clock.ts"
import type { ServerOutline } from "./servers.ts"

export interface OutlineSource {
  /** About how many bytes each of these servers takes to load; one that is gone is missing. */
  outlineBytes(servers: readonly Snowflake[]): Promise<ReadonlyMap<Snowflake, number>>
  outlines(servers: readonly Snowflake[]): Promise<ServerOutline[]>
}

export interface OutlineLoadsOptions {
  readonly source: OutlineSource
  readonly maxConcurrent: number
  readonly clock: Clock
}

/** Servers that are loaded by one statement have at most so many bytes together, unless one has more alone. */
const statementBytes = 262_144
/** Several times what the limits of a server allow. */
const maxServerBytes = 33_554_432

type Loaded = ReadonlyMap<Snowflake, ServerOutline>

/**
 * Loads what a process needs of servers: those that are asked for in one turn of the event loop
 * together, as far as they are small. A large server is loaded by a statement of its own: others
 * neither wait while it is decoded nor fail with it.
 */
export class OutlineLoads {
  readonly #options: OutlineLoadsOptions
  #asked:
    | { readonly ids: Set<Snowflake>; readonly statements: Promise<ReadonlyMap<Snowflake, Promise<Loaded>>> }
    | undefined
  #loading = 0
  readonly #queue: (() => void)[] = []

  constructor(options: OutlineLoadsOptions) {
    this.#options = options
  }

  /** Undefined: there is no such server. */
  async load(server: Snowflake): Promise<ServerOutline | undefined> {
    const { clock } = this.#options
    if (!this.#asked) {
      const ids = new Set<Snowflake>()
      const statements = new Promise<void>(resolve => clock.soon(resolve)).then(() => {
        this.#asked = undefined
        return this.#begin([...ids])
      })
      this.#asked = { ids, statements }
    }
    const { ids, statements } = this.#asked
    ids.add(server)
    return (await (await statements).get(server))?.get(server)
  }

  /** The statement that loads each server. */
  async #begin(ids: readonly Snowflake[]): Promise<ReadonlyMap<Snowflake, Promise<Loaded>>> {
    const sizes = await this.#inTurn(() => this.#options.source.outlineBytes(ids))
    const statements = new Map<Snowflake, Promise<Loaded>>()
    for (const group of grouped(ids, sizes)) {
      const loaded = this.#inTurn(() => this.#load(group, sizes))
      // Each that waits for one of them is told.
      loaded.catch(() => {})
      for (const id of group) statements.set(id, loaded)
    }
    return statements
  }

  async #load(ids: readonly Snowflake[], sizes: ReadonlyMap<Snowflake, number>): Promise<Loaded> {
    if (ids.some(id => sizes.get(id)! > maxServerBytes)) throw unavailable("server too large", 60)
    const outlines = await this.#options.source.outlines(ids)
    return new Map(outlines.map(outline => [outline.id, outline]))
  }

  async #inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (this.#loading >= this.#options.maxConcurrent) {
      if (this.#queue.length > 10_000) throw fail("unavailable")
      await new Promise<void>(resolve => this.#queue.push(resolve))
    }
    this.#loading++
    try {
      return await work()
    } finally {
      this.#loading--
      this.#queue.shift()?.()
    }
  }
}

function grouped(ids: readonly Snowflake[], sizes: ReadonlyMap<Snowflake, number>): Snowflake[][] {
  const groups: Snowflake[][] = []
  let bytes = Infinity
  for (const id of ids) {
    const size = sizes.get(id)
    if (size === undefined) continue
    if (bytes + size > statementBytes) {
      groups.push([])
      bytes = 0
    }
    groups.at(-1)!.push(id)
    bytes += size
  }
  return groups
}
