/* oxlint-disable layers/no-barrel -- what authors import from the package as a whole */
/**
 * `@starling/client`: REST, gateway, uploads and a store of what the user can see, for browsers,
 * Node, Deno and Bun.
 */
import { table, type Routes } from "./contract.ts"
import {
  createClient as createRestClient,
  parseRoute,
  type Client as RestClient,
  type ClientOptions,
  type Typed,
} from "./rest.ts"

export * from "./contract.ts"
export * from "./gateway.ts"
export {
  ApiError,
  type CallOptions,
  type ClientOptions,
  type Content,
  type FormFile,
  type RetryPolicy,
} from "./rest.ts"
export { createStore, Store, type Change, type Connection, type StoreOptions } from "./store.ts"
export * from "./permissions.ts"
export type * from "./state.ts"
export * from "./uploads.ts"

/** Every route of the server as a method of its own name. */
export type Client = RestClient<Typed<Routes>>

const routes = Object.fromEntries(
  Object.entries(table).map(([name, line]) => [name, parseRoute(line)]),
) as Typed<Routes>

/** Every route as a method. Tries again where that is harmless, unless `retry` says otherwise. */
export const createClient = (options: ClientOptions): Client => createRestClient({ retry: true, ...options }, routes)
