import { ask } from "../../kit/dialog.tsx"
import { useResource } from "../../kit/resource.ts"
import { Loaded } from "../../kit/states.tsx"
import { t } from "../../kit/text.ts"
import { Time } from "../../kit/time.tsx"
import { attempt } from "../../kit/toasts.tsx"
import { me } from "../session.ts"

export function Sessions() {
  const { client } = me()
  const sessions = useResource(() => client.listSessions(), [])
  const end = (id: string) =>
    void attempt(() => client.revokeSession({ session_id: id }), t("That session has ended.")).then(sessions.reload)
  const endAll = () =>
    ask({
      title: t("End all sessions?"),
      will: <p>{t("You are signed out everywhere, here too.")}</p>,
      does: t("End all"),
      isDangerous: true,
      work: () => client.revokeAllSessions({ except_current: false }),
    })
  return (
    <section class="card">
      <h2>{t("Where you are signed in")}</h2>
      <Loaded of={sessions}>
        {list => (
          <ul class="rows">
            {list.map(({ id, user_agent, ip_address, last_activity, current }) => (
              <li key={id}>
                <span class="long">
                  {user_agent.slice(0, 120)} <span class="faint">{ip_address}</span> <Time at={last_activity} apart />
                </span>
                {current ? (
                  <span class="badge good">{t("this one")}</span>
                ) : (
                  <button type="button" class="small" onClick={() => end(id)}>
                    {t("End")}
                  </button>
                )}
              </li>
            ))}
          </ul>
        )}
      </Loaded>
      <p class="buttons start">
        <button type="button" class="danger" onClick={endAll}>
          {t("End all sessions")}
        </button>
      </p>
    </section>
  )
}
