import type { OverrideResponse, RoleResponse, ServerPermissions, Snowflake } from "../../client/contract.ts"
import { useEffect, useRef, useState } from "preact/hooks"
import { permissionsIn, rankIn, type PermissionAnswer, type PermissionMember } from "../../client/permissions.ts"
import type { KnownServer } from "../../client/state.ts"
import { useResource } from "../kit/resource.ts"
import { me, ownId, watch } from "./session.ts"

const asked = new Map<string, { readonly decides: string; readonly answer: Promise<ServerPermissions> }>()
/** Answers for servers and channels that were looked at last. */
const maxAsked = 100

/** All who want to know the same are told by one request. */
function ownPermissions(
  server: Snowflake,
  channel: Snowflake | undefined,
  decides: string,
): Promise<ServerPermissions> {
  const place = `${server} ${channel}`
  const known = asked.get(place)
  if (known?.decides === decides) return known.answer
  const answer = me().client.getServerPermissions({ server_id: server, ...(channel && { channel_id: channel }) })
  asked.delete(place)
  asked.set(place, { decides, answer })
  for (const oldest of asked.keys()) if (asked.size > maxAsked) asked.delete(oldest)
  answer.catch(() => asked.delete(place))
  return answer
}

const versions = new WeakMap<object, number>()
let lastVersion = 0
/** The store makes another object of a channel with each event about it, one about its overrides too. */
function versionOf(channel: object | undefined): number {
  if (!channel) return 0
  const version = versions.get(channel) ?? ++lastVersion
  versions.set(channel, version)
  return version
}

const grants = new WeakMap<object, string>()
/** What a role grants. A change makes another object of it, so it is put together once for each. */
function grantsOf(role: Pick<RoleResponse, "permissions">): string {
  const known = grants.get(role) ?? Object.values(role.permissions).map(Number).join("")
  grants.set(role, known)
  return known
}

/** Whether a time-out goes on; rendered again when it ends, of which no event tells. */
function useTimedOut(until: number | null | undefined): boolean {
  const [, setRound] = useState(0)
  const leftMs = (until ?? 0) * 1_000 - Date.now()
  useEffect(() => {
    if (leftMs <= 0) return
    // Timers take no more than this; then it is looked at again.
    const timer = setTimeout(() => setRound(round => round + 1), Math.min(leftMs + 500, 0x7fffffff))
    return () => clearTimeout(timer)
  })
  return leftMs > 0
}

type Permission = keyof ServerPermissions

/** What the person may do in a server: asked again whenever something of the server changes that decides it. */
export function useMay(server: Snowflake): (permission: Permission) => boolean {
  const may = usePermissions(server)
  return permission => may?.[permission] === true
}

/** The same for one of its channels, or for the server; undefined: not known yet, or nothing to ask about. */
export function usePermissions(server: Snowflake | undefined, channel?: Snowflake): ServerPermissions | undefined {
  const { state } = watch(server === undefined ? "user" : `server ${server}`)
  const known = server === undefined ? undefined : state.servers.get(server)
  const own = known?.members.get(ownId())
  const roles = [...(known?.roles.values() ?? [])].map(grantsOf)
  const isOut = useTimedOut(own?.timeout_until)
  const version = channel === undefined ? 0 : versionOf(known?.channels.get(channel))
  const decides = JSON.stringify([ownId(), own?.roles, isOut, known?.facts.owner_id, roles, version])
  // Of a server that the person has left nothing is asked.
  const isIn = server !== undefined && state.servers.has(server)
  const place = `${server} ${channel}`
  const { data } = useResource(
    async () => (isIn ? ownPermissions(server, channel, decides) : undefined),
    [place, decides, isIn],
  )
  // While it is asked again, what was answered last holds: nothing comes and goes in between.
  const last = useRef<{ place: string; data: ServerPermissions }>(undefined)
  if (data) last.current = { place, data }
  return isIn && last.current?.place === place ? last.current.data : undefined
}

/** As much of a member as permissions and ranks take, as far as the store knows them. */
export function holderIn({ members }: KnownServer, user: Snowflake): PermissionMember {
  const { roles = [], timeout_until = null } = members.get(user) ?? {}
  return { user_id: user, roles, timeout_until }
}

/** A member's authority: they change what ranks below it. */
export const rankOf = ({ facts, roles }: KnownServer, member: PermissionMember): number =>
  rankIn({ owner_id: facts.owner_id, roles }, member)

/** What somebody may do, with why; by the server's own arithmetic. */
export const answersFor = (
  { facts, roles }: KnownServer,
  member: PermissionMember,
  overrides: readonly OverrideResponse[] = [],
): Record<string, PermissionAnswer> =>
  permissionsIn({ id: facts.id, owner_id: facts.owner_id, roles }, member, overrides)
