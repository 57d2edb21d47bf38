import type { Snowflake } from "../../client/contract.ts"
import type { KnownServer } from "../../client/state.ts"
import { Dialog, present } from "../kit/dialog.tsx"
import { useResource } from "../kit/resource.ts"
import { t } from "../kit/text.ts"
import { attempt } from "../kit/toasts.tsx"
import { MemberRoles } from "./member-roles.tsx"
import { Moderation } from "./moderation.tsx"
import { avatarOf } from "./names.ts"
import { goTo } from "./places.ts"
import { Report, type Given } from "./report.tsx"
import { me, ownId } from "./session.ts"

/** Who somebody is here, and what can be done about it. */
export function MemberCard({ known, id, onClose }: { known: KnownServer; id: Snowflake; onClose: () => void }) {
  const member = known.members.get(id)!
  const { client } = me()
  const isSelf = id === ownId()
  const name = member.nickname ?? member.username
  const act = (work: () => Promise<unknown>, done?: string) => async () => {
    if (await attempt(work, done)) onClose()
  }
  const { data: presence } = useResource(() => client.getPresence({ user_id: id }), [id])
  const said = [presence?.custom_emoji, presence?.custom_status].filter(Boolean).join(" ")
  const report = () =>
    present(async () => {
      const send = (given: Given) => client.reportUser({ user_id: id, ...given })
      return onEnd => <Report title={t("Report {name}", { name })} send={send} onClose={onEnd} />
    })
  const write = act(async () => goTo({ channel: (await client.openDirectChannel({ recipient_id: id })).id }))
  return (
    <Dialog title={name} onClose={onClose}>
      <p>
        <img class="avatar" src={avatarOf(id, member.avatar_url)} alt="" width={64} height={64} /> @{member.username}
      </p>
      {said && <p dir="auto">{said}</p>}
      <MemberRoles known={known} user={id} name={name} />
      {!isSelf && (
        <p class="buttons start">
          {!member.bot && (
            <button type="button" class="strong" onClick={() => void write()}>
              {t("Message")}
            </button>
          )}
          {!member.bot && (
            <button type="button" onClick={() => void act(() => client.requestFriend({ user_id: id }), t("Asked."))()}>
              {t("Add as a friend")}
            </button>
          )}
          <button type="button" onClick={report}>
            {t("Report")}
          </button>
        </p>
      )}
      {!isSelf && <Moderation known={known} user={id} name={name} />}
      <p class="buttons">
        <button type="button" onClick={onClose}>
          {t("Close")}
        </button>
      </p>
    </Dialog>
  )
}
