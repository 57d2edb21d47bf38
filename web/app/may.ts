import type { ServerPermissions, Snowflake } from "../../client/contract.ts"
import { useResource } from "../kit/resource.ts"
import { me, ownId, watch } from "./session.ts"

const asked = new Map<Snowflake, { readonly decides: string; readonly answer: Promise<ServerPermissions> }>()

/** All who want to know the same are told by one request. */
function permissionsIn(server: Snowflake, decides: string): Promise<ServerPermissions> {
  const known = asked.get(server)
  if (known?.decides === decides) return known.answer
  const answer = me().client.getServerPermissions({ server_id: server })
  asked.set(server, { decides, answer })
  answer.catch(() => asked.delete(server))
  return answer
}

/** What the person may do in a server: asked again whenever something of the server changes that decides it. */
export function useMay(server: Snowflake): (permission: keyof ServerPermissions) => boolean {
  const { state } = watch(`server ${server}`)
  const known = state.servers.get(server)
  const own = known?.members.get(ownId())
  const roles = [...(known?.roles.values() ?? [])].map(({ permissions }) =>
    Object.values(permissions).map(Number).join(""),
  )
  const decides = JSON.stringify([ownId(), own?.roles, own?.timeout_until, known?.facts.owner_id, roles])
  // Of a server that the person has left nothing is asked.
  const isIn = state.servers.has(server)
  const { data } = useResource(async () => (isIn ? permissionsIn(server, decides) : undefined), [server, decides, isIn])
  return permission => data?.[permission] === true
}
