import type { Snowflake } from "../../../client/contract.ts"
import { useResource } from "../../kit/resource.ts"
import { Loaded } from "../../kit/states.tsx"
import { t } from "../../kit/text.ts"
import { Time } from "../../kit/time.tsx"
import { me } from "../session.ts"

export function AuditLog({ server }: { server: Snowflake }) {
  const entries = useResource(() => me().client.listAuditLog({ server_id: server, limit: "100" }), [server])
  return (
    <section class="card">
      <h2>{t("Audit log")}</h2>
      <Loaded of={entries}>
        {list => (
          <ul class="rows">
            {list.map(entry => (
              <li key={entry.id}>
                <Time at={entry.created_at} apart /> <b>{entry.user?.username ?? entry.user_id}</b>{" "}
                <code>{entry.action}</code> <span class="long">{entry.target_name}</span>{" "}
                <span class="faint long">{entry.reason}</span>
              </li>
            ))}
          </ul>
        )}
      </Loaded>
    </section>
  )
}
