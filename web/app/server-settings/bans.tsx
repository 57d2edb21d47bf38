import type { Snowflake } from "../../../client/contract.ts"
import { useResource } from "../../kit/resource.ts"
import { Empty, Loaded } from "../../kit/states.tsx"
import { t } from "../../kit/text.ts"
import { Time } from "../../kit/time.tsx"
import { attempt } from "../../kit/toasts.tsx"
import { me } from "../session.ts"
import { useEvents, UserName, type PartOptions } from "./shared.tsx"

export function Bans({ server }: PartOptions) {
  const { client } = me()
  const bans = useResource(() => client.listBans({ server_id: server }), [server])
  useEvents(["GUILD_BAN_ADD", "GUILD_BAN_REMOVE"], ({ server_id }) => server_id === server, bans.reload)
  const lift = (user: Snowflake) =>
    void attempt(() => client.unbanUser({ server_id: server, user_id: user }), t("The ban is lifted.")).then(
      bans.reload,
    )
  return (
    <section class="card">
      <h2>{t("Bans")}</h2>
      <Loaded of={bans}>
        {list =>
          list.length === 0 ? (
            <Empty title={t("Nobody is banned.")} />
          ) : (
            <ul class="rows">
              {list.map(({ user_id, reason, banned_at }) => (
                <li key={user_id}>
                  <UserName id={user_id} /> <span class="faint long">{reason}</span> <Time at={banned_at} apart />
                  <button type="button" class="small" onClick={() => lift(user_id)}>
                    {t("Lift the ban")}
                  </button>
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </section>
  )
}
