import type { RouteBucket } from "../../cluster/admission.ts"
import { openInMaintenance } from "../../contract/contract.ts"
import type { PageRoute } from "../../contract/pages.ts"
import { operatorsRoot, type Route } from "../../contract/core/registry.ts"
import type { RouteMetrics } from "../../observability/metrics.ts"
import type { Call } from "./handlers.ts"
import type { BodyBounds } from "./request-body.ts"
import type { StreamBounds } from "./streamed-body.ts"
import { pathParameters, type PathParameter } from "./validation.ts"

/** A route with everything that is known before a request comes. */
export interface PreparedRoute {
  /** Its operation id. */
  readonly name: string
  readonly route: Route
  readonly handler: (call: Call) => unknown
  readonly parameters: readonly PathParameter[]
  /** How many of them uWebSockets.js gives. */
  readonly takenParameters: number
  readonly isCounted: boolean
  /** As the use of an access token names it. */
  readonly gated: { readonly method: string; readonly path: string }
  /** It is not answered during maintenance. */
  readonly waitsForMaintenance: boolean
  /** It waits while it is not known what PostgreSQL has: what only operators see does not. */
  readonly isHeld: boolean
  /** An operator's call of it is in the trail. */
  readonly isRecorded: boolean
  readonly bucket: RouteBucket | undefined
  readonly metrics: RouteMetrics
  readonly body: BodyBounds
  /** Instead of `body`, where the file of a form is read while it arrives. */
  readonly stream: Omit<StreamBounds, "startedAt" | "holder"> | undefined
}

export const apiRoot = "/api/v1"

export const prepareRoute = (
  route: Route,
  rest: Pick<PreparedRoute, "name" | "handler" | "bucket" | "metrics" | "body" | "stream">,
): PreparedRoute => {
  const parameters = pathParameters(route)
  return {
    ...rest,
    route,
    parameters,
    takenParameters: parameters.length - (route.takesRest ? 1 : 0),
    isCounted: route.limit !== "none",
    gated: {
      method: route.method,
      path: (route.mount === "root" ? "" : apiRoot) + route.path.replaceAll(/:(\w+)/g, "{$1}"),
    },
    waitsForMaintenance: !openInMaintenance.has(route),
    isRecorded: route.trail !== undefined || (route.mount === "operators" && route.method !== "GET"),
    isHeld: !openInMaintenance.has(route) || (route.auth !== "public" && route.method !== "GET"),
  }
}

/** Where the operator area is; undefined: it is switched off. */
export type AreaPath = string | undefined

/** uWebSockets.js compares paths as they were sent; some clients encode the `@` of `@me`. */
export function patternsOf(route: Route, area: AreaPath): string[] {
  if (route.mount === "operators") return patternsInArea(route, area)
  const mounted = route.mount === "both" ? ["", apiRoot] : [route.mount === "api" ? apiRoot : ""]
  if (route.takesRest) return mounted.map(mount => mount + route.path.replace(/:\w+$/, "*"))
  const paths = route.path.includes("@") ? [route.path, route.path.replaceAll("@", "%40")] : [route.path]
  return mounted.flatMap(mount => paths.map(path => mount + path))
}

/** A path that is declared with the area's usual root, as it is below another. */
const below = (area: string, path: string): string => area + path.slice(operatorsRoot.length)

/** The same, at both of the area's roots. */
const inArea = (path: string, area: AreaPath): string[] =>
  area === undefined ? [] : [apiRoot, ""].map(root => root + below(area, path))

/** What takes tokens of users, too, is where they look for it whether or not there is an area. */
function patternsInArea({ path: declared, auth, takesRest }: Route, area: AreaPath): string[] {
  const path = takesRest ? declared.replace(/:\w+$/, "*") : declared
  return [...new Set([...(auth === "administrator" ? [apiRoot + path] : []), ...inArea(path, area)])]
}

export function patternsOfPage({ path, mount }: PageRoute, area: AreaPath): string[] {
  if (mount === "operators") return inArea(path, area)
  return mount === "both" ? [path, apiRoot + path] : [path]
}

/** The part of a path that stands in the place of the last parameter of a route's. */
export function restOf(url: string, { path: declared, mount }: Pick<Route, "path" | "mount">, area: AreaPath): string {
  const path = url.startsWith(`${apiRoot}/`) ? url.slice(apiRoot.length) : url
  const template = mount === "operators" && area !== undefined ? below(area, declared) : declared
  return path
    .split("/")
    .slice(template.split("/").length - 1)
    .join("/")
}
