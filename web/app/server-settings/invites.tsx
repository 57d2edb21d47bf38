import { CopyButton } from "../../kit/forms.tsx"
import { useResource } from "../../kit/resource.ts"
import { Empty, Loaded } from "../../kit/states.tsx"
import { count, t } from "../../kit/text.ts"
import { Time } from "../../kit/time.tsx"
import { attempt } from "../../kit/toasts.tsx"
import { linkOf } from "../invite.tsx"
import { me } from "../session.ts"
import { useEvents, type PartOptions } from "./shared.tsx"

export function Invites({ server }: PartOptions) {
  const { client } = me()
  const invites = useResource(() => client.listInvites({ server_id: server }), [server])
  useEvents(["INVITE_CREATE", "INVITE_DELETE"], ({ server_id }) => server_id === server, invites.reload)
  const end = (code: string) =>
    void attempt(() => client.deleteInvite({ invite_code: code }), t("The invite has ended.")).then(invites.reload)
  return (
    <section class="card">
      <h2>{t("Invites")}</h2>
      <Loaded of={invites}>
        {list =>
          list.length === 0 ? (
            <Empty title={t("There are none.")} />
          ) : (
            <ul class="rows">
              {list.map(({ code, uses, created_at }) => (
                <li key={code}>
                  <code>{code}</code> <span class="faint">{count(uses, "used {n} time", "used {n} times")}</span>{" "}
                  <Time at={created_at} apart />
                  <CopyButton text={linkOf(code)} />
                  <button type="button" class="small" onClick={() => end(code)}>
                    {t("End")}
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
