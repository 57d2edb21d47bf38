import type { ClusterConfig } from "../../../cluster.config.ts"
import type { ConnectionCapacity } from "../../storage/core/connection-capacity.ts"
import { connectionsOf as connectionsOfProcess } from "../../storage/storage.ts"
import type { Role } from "./processes.ts"

/** Of the primary, while it migrates, beside its own. */
const whileMigrating = 2

/** Connections to PostgreSQL that the processes of a host open at most. */
export function connectionsOf(
  count: Readonly<Record<Role, number>>,
  { readConnections }: Pick<ClusterConfig["storage"], "readConnections">,
): { readonly each: number; readonly all: number } {
  const each = Math.max(connectionsOfProcess(readConnections, "web"), connectionsOfProcess(readConnections, "job"))
  const primary = connectionsOfProcess(1, "primary") + whileMigrating
  // One more process than usual while they are replaced one after another.
  return { each, all: primary + (count.web + count.job + 1) * each }
}

/** What an operator should know before connections run out; undefined: they suffice. */
export function shortage(
  count: Readonly<Record<Role, number>>,
  storage: Pick<ClusterConfig["storage"], "readConnections">,
  { maxConnections, reserved, limit, inUse }: ConnectionCapacity,
): string | undefined {
  const { each, all } = connectionsOf(count, storage)
  const open = Math.min(maxConnections - reserved, limit ?? Infinity)
  if (all + inUse <= open) return undefined
  const sum = `(${count.web} web + ${count.job} job workers + 1 while they are replaced) × ${each} + the primary's = ${all}`
  const taken = `max_connections ${maxConnections} − ${reserved} reserved${limit === null ? "" : `, limited to ${limit} for this user or database`} = ${open}`
  const others = inUse === 0 ? "" : `, of which ${inUse} are in use by others`
  return (
    `this host opens up to ${all} connections to PostgreSQL: ${sum}. It takes ${taken}${others}. ` +
    `Raise max_connections to ${all + inUse + reserved} or more, or lower WORKERS or storage.readConnections`
  )
}
