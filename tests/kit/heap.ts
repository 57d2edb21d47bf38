import { getHeapStatistics, setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"

setFlagsFromString("--expose-gc")
export const collectGarbage = runInNewContext("gc") as () => void

/** Bytes of V8's heap that are in use once the garbage is collected. */
export const usedBytes = (): number => {
  collectGarbage()
  collectGarbage()
  return getHeapStatistics().used_heap_size
}
