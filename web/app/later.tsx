import type { ComponentType } from "preact"
import { useResource } from "../kit/resource.ts"
import { Loaded } from "../kit/states.tsx"

/** A view whose code is loaded when somebody first opens it: most people only talk. */
export function later<P extends object>(load: () => Promise<ComponentType<P>>) {
  return function Later(given: P) {
    const code = useResource(load, [])
    return <Loaded of={code}>{View => <View {...given} />}</Loaded>
  }
}
