import type { Snowflake } from "../../../client/contract.ts"
import { useResource } from "../../kit/resource.ts"
import { Empty, Loaded } from "../../kit/states.tsx"
import { t } from "../../kit/text.ts"
import { Time } from "../../kit/time.tsx"
import { attempt } from "../../kit/toasts.tsx"
import { me } from "../session.ts"

export function Bans({ server }: { server: Snowflake }) {
  const { client } = me()
  const bans = useResource(() => client.listBans({ server_id: server }), [server])
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

/** Of somebody who is in no list any more. */
export function UserName({ id }: { id: Snowflake }) {
  const { data } = useResource(() => me().client.getUser({ user_id: id }), [id])
  return <b>{data?.username ?? id}</b>
}
