import type { RoleResponse, Snowflake } from "../../client/contract.ts"
import type { KnownServer } from "../../client/state.ts"
import { Select } from "../kit/forms.tsx"
import { t } from "../kit/text.ts"
import { attempt } from "../kit/toasts.tsx"
import { holderIn, rankOf, useMay } from "./may.ts"
import { me, ownId } from "./session.ts"

/** A bot's own role is nobody else's. */
const isFor = ({ bot_id }: RoleResponse, user: Snowflake) => bot_id === undefined || bot_id === user

/** The roles of a member; those below one's own can be taken and given here. */
export function MemberRoles({ known, user, name }: { known: KnownServer; user: Snowflake; name: string }) {
  const { id: server } = known.facts
  const may = useMay(server)
  const { client } = me()
  const held = known.members.get(user)?.roles ?? []
  const rank = rankOf(known, holderIn(known, ownId()))
  const mayAssign = may("members.manage_roles") || may("roles.manage")
  const roles = [...known.roles.values()]
    .filter(({ is_default }) => !is_default)
    .toSorted((one, other) => other.position - one.position)
  const left = mayAssign
    ? roles.filter(role => !held.includes(role.id) && isFor(role, user) && role.position < rank)
    : []
  const where = { server_id: server, member_id: user }
  return (
    <>
      <ul class="badges" aria-label={t("Roles")}>
        {roles
          .filter(({ id }) => held.includes(id))
          .map(({ id, name: role, position }) => (
            <li key={id} class="badge">
              {role}
              {mayAssign && position < rank && (
                <button
                  type="button"
                  class="quiet small"
                  aria-label={t("Take {role} from {name}", { role, name })}
                  onClick={() => void attempt(() => client.takeRole({ ...where, role_id: id }))}
                >
                  ×
                </button>
              )}
            </li>
          ))}
      </ul>
      {left.length > 0 && (
        <Select
          label={t("Give a role")}
          value=""
          choices={[["", t("Choose …")], ...left.map(({ id, name: role }) => [id, role] as const)]}
          onValue={id => id !== "" && void attempt(() => client.giveRole({ ...where, role_id: id }))}
        />
      )}
    </>
  )
}
