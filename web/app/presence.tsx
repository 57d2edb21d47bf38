import type { Snowflake } from "../../client/contract.ts"
import { msgid, t } from "../kit/text.ts"
import { watch } from "./session.ts"

const words = {
  online: msgid("online"),
  idle: msgid("away"),
  dnd: msgid("do not disturb"),
  offline: msgid("offline"),
  invisible: msgid("offline"),
}

/** A dot that says whether somebody is there, as far as this page was told. */
export function Presence({ user, otherwise }: { user: Snowflake; otherwise?: keyof typeof words | undefined }) {
  const known = watch("presences").state.presences.get(user)
  const status = known?.status ?? otherwise
  if (status === undefined) return null
  const title = [t(words[status]), known?.custom_emoji, known?.custom_status].filter(Boolean).join(" ")
  return (
    <span class={`presence ${status}`} title={title}>
      <span class="unseen">{title}</span>
    </span>
  )
}
