import type { ServerPermissions, Snowflake } from "../../client/contract.ts"
import { useResource } from "../kit/resource.ts"
import { me, watch } from "./session.ts"

/** What the person may do in a server: asked again whenever something of the server changes that decides it. */
export function useMay(server: Snowflake): (permission: keyof ServerPermissions) => boolean {
  const { state } = watch(`server ${server}`)
  const known = state.servers.get(server)
  const own = known?.members.get(state.user?.id ?? "")
  const decides = [
    own?.roles,
    own?.timeout_until,
    known?.facts.owner_id,
    [...(known?.roles.values() ?? [])].map(({ permissions }) => Object.values(permissions).map(Number).join("")),
  ]
  const { data } = useResource(() => me().client.getServerPermissions({ server_id: server }), [server, decides])
  return permission => data?.[permission] === true
}
