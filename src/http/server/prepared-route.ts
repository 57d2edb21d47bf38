import type { RouteBucket } from "../../cluster/admission.ts"
import { openInMaintenance } from "../../contract/contract.ts"
import type { PageRoute } from "../../contract/pages.ts"
import type { Route } from "../../contract/core/registry.ts"
import type { RouteMetrics } from "../../observability/metrics.ts"
import type { Call } from "./handlers.ts"
import type { BodyBounds } from "./request-body.ts"
import type { StreamBounds } from "./streamed-body.ts"
import { pathParameters, type PathParameter } from "./validation.ts"

/** A route with everything that is known before a request comes. */
export interface PreparedRoute {
  readonly route: Route
  readonly handler: (call: Call) => unknown
  readonly parameters: readonly PathParameter[]
  /** How many of them uWebSockets.js gives. */
  readonly takenParameters: number
  readonly isCounted: boolean
  /** It is not answered during maintenance. */
  readonly waitsForMaintenance: boolean
  readonly bucket: RouteBucket | undefined
  readonly metrics: RouteMetrics
  readonly body: BodyBounds
  /** Instead of `body`, where the file of a form is read while it arrives. */
  readonly stream: Omit<StreamBounds, "startedAt" | "holder"> | undefined
}

export const apiRoot = "/api/v1"

export const prepareRoute = (
  route: Route,
  rest: Pick<PreparedRoute, "handler" | "bucket" | "metrics" | "body" | "stream">,
): PreparedRoute => {
  const parameters = pathParameters(route)
  return {
    ...rest,
    route,
    parameters,
    takenParameters: parameters.length - (route.takesRest ? 1 : 0),
    isCounted: route.limit !== "none",
    waitsForMaintenance: !openInMaintenance.has(route),
  }
}

/** uWebSockets.js compares paths as they were sent; some clients encode the `@` of `@me`. */
export function patternsOf(route: Route): string[] {
  const mounted = route.mount === "both" ? ["", apiRoot] : [route.mount === "api" ? apiRoot : ""]
  if (route.takesRest) return mounted.map(mount => mount + route.path.replace(/:\w+$/, "*"))
  const paths = route.path.includes("@") ? [route.path, route.path.replaceAll("@", "%40")] : [route.path]
  return mounted.flatMap(mount => paths.map(path => mount + path))
}

export const patternsOfPage = ({ path, mount }: PageRoute): string[] =>
  mount === "both" ? [path, apiRoot + path] : [path]

/** The part of a path that stands in the place of a template's last parameter. */
export function restOf(url: string, template: string): string {
  const path = url.startsWith(`${apiRoot}/`) ? url.slice(apiRoot.length) : url
  return path
    .split("/")
    .slice(template.split("/").length - 1)
    .join("/")
}
