import { Fact, type FactOptions } from "../../runtime/facts.ts"
import type { Storage } from "../../storage/storage.ts"

/** A fact of this program's homes: its loader is handed the storage. */
export const defineFact = <Home, Value>(options: FactOptions<Home, Value, Storage>): Fact<Home, Value> =>
  new Fact(options)
