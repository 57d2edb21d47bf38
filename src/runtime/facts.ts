import type { Snowflake } from "../contract/core/fields.ts"
import { Memory, type Bounds, type Facts } from "../domain/core/facts.ts"
import type { Readonlied } from "../domain/core/readonlied.ts"
import { SizedMap } from "../domain/core/sized-map.ts"

/** A memory of homes of one kind. In a turn it is to be read only; `apply` and `remember` may change it. */
export class HomeMemory<Home, Value> extends Memory<Value> {
  of(home: Home): Value
  of(home: Readonlied<Home>): Readonlied<Value>
  of(home: Home | Readonlied<Home>): Value | Readonlied<Value> {
    return (home as { readonly facts: Facts }).facts.get(this)
  }
}

/** `Source` is what loaders read from; see `HostedApplication.source`. */
export interface FactOptions<Home, Value, Source = unknown> extends Bounds {
  /** The bytes that a value takes; for `keepBytes`. */
  readonly sizeOf?: (value: Value) => number
  /** Values are changed in their places. */
  readonly changing?: true
  /** `home`: for what has to be put together with what turns decide meanwhile. `now`: when it was asked for. */
  load(
    source: Source,
    homeId: Snowflake,
    keys: readonly string[],
    home: Home,
    now: number,
  ): Promise<ReadonlyMap<string, Value>>
}

/**
 * A fact that a command looks at and that is too large a table to keep whole: a member, an invite, a nonce. The host loads
 * it before the turn, once; from then on turns keep it current in the home's map, where `null` means "known not to be".
 */
export class Fact<Home, Value> extends HomeMemory<Home, Map<string, Value | null>> {
  readonly load: FactOptions<Home, Value, never>["load"]

  constructor({ sizeOf, changing, load, ...bounds }: FactOptions<Home, Value, never>) {
    super(() => (sizeOf ? new SizedMap(sizeOf, changing) : new Map()), bounds)
    this.load = load
  }

  /** The fact under a key, as a command asks for it. */
  need(key: string): Need<Home> {
    return { fact: this, key }
  }
}

export interface Need<Home> {
  readonly fact: Fact<Home, unknown>
  readonly key: string
}

export const defineFact = <Home, Value>(options: FactOptions<Home, Value>): Fact<Home, Value> => new Fact(options)

/** What only memory knows: it is lost with the home, and the subject bounds it by itself. */
export const defineMemory = <Home, Value>(empty: () => Value): HomeMemory<Home, Value> => new HomeMemory(empty)
