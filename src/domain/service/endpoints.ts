import type { Route } from "../../contract/core/registry.ts"

/** What telemetry calls a place at which requests are answered: a path pattern, with the method beside it. */
export interface Endpoint {
  readonly endpoint: string
  readonly method: string
}

/** Whatever is no route. */
export const otherEndpoint: Endpoint = { endpoint: "other", method: "other" }

type Placed = Pick<Route, "method" | "path" | "mount" | "takesRest">

const apiRoot = "/api/v1"

/** A route as clients see it: `/api/v1/channels/{channel_id}/messages`. */
export const endpointOf = ({ method, path, mount }: Placed): Endpoint => ({
  endpoint: (mount === "root" ? "" : apiRoot) + path.replace(/:(\w+)/g, "{$1}"),
  method,
})

/** One part of a path; whatever stands in the place of a parameter has been taken together. */
class Step {
  readonly next = new Map<string, Step>()
  parameter: Step | undefined
  /** By method. */
  readonly endpoints = new Map<string, Endpoint>()
  /** Of routes whose last parameter is all that is left of a path. */
  readonly rests = new Map<string, Endpoint>()
}

/** What of a path a template has in the place of a parameter: an id, or a template of the client's own. */
function find(step: Step, parts: readonly string[], at: number, method: string): Endpoint | undefined {
  if (at === parts.length) return step.endpoints.get(method)
  const named = step.next.get(parts[at]!)
  return (
    (named && find(named, parts, at + 1, method)) ??
    (step.parameter && find(step.parameter, parts, at + 1, method)) ??
    step.rests.get(method)
  )
}

/**
 * Names what clients say that they have asked. There are as many names as there are routes, whatever clients say:
 * what is no route is `otherEndpoint`.
 */
export class EndpointNames {
  readonly #api = new Step()
  readonly #root = new Step()

  constructor(routes: readonly Placed[]) {
    for (const route of routes) this.#add(route)
  }

  #add(route: Placed): void {
    const endpoint = endpointOf(route)
    const parts = partsOf(route.path)
    const rest = route.takesRest ? parts.pop() : undefined
    for (const root of this.#rootsOf(route)) {
      let step = root
      for (const part of parts) {
        let next = part.startsWith(":") ? step.parameter : step.next.get(part)
        if (!next) {
          next = new Step()
          if (part.startsWith(":")) step.parameter = next
          else step.next.set(part, next)
        }
        step = next
      }
      const of = rest === undefined ? step.endpoints : step.rests
      of.set(route.method, endpoint)
    }
  }

  #rootsOf({ mount }: Placed): Step[] {
    if (mount === "api") return [this.#api]
    return mount === "root" ? [this.#root] : [this.#api, this.#root]
  }

  /** @param path with or without an origin, `/api/v1` and a query; a template, or with ids in it */
  of(path: string, method: string): Endpoint {
    const asked = method.toUpperCase() === "HEAD" ? "GET" : method.toUpperCase()
    const plain = path.replace(/^https?:\/\/[^/?#]*/i, "").replace(/[?#].*$/s, "")
    const isOfApi = plain === apiRoot || plain.startsWith(`${apiRoot}/`)
    const parts = partsOf(isOfApi ? plain.slice(apiRoot.length) : plain)
    const found = isOfApi
      ? find(this.#api, parts, 0, asked)
      : (find(this.#root, parts, 0, asked) ?? find(this.#api, parts, 0, asked))
    return found ?? otherEndpoint
  }
}

const partsOf = (path: string): string[] => path.split("/").filter(part => part !== "")
