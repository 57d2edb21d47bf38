import type { Snowflake } from "../../client/contract.ts"
import { t } from "../kit/text.ts"
import { watch } from "./session.ts"

const words = {
  online: "online",
  idle: "away",
  dnd: "do not disturb",
  offline: "offline",
  invisible: "offline",
} as const

/** A dot that says whether somebody is there, as far as this page was told. */
export function Presence({ user, otherwise }: { user: Snowflake; otherwise?: keyof typeof words | undefined }) {
  const status = watch("presences").state.presences.get(user)?.status ?? otherwise
  if (status === undefined) return null
  return (
    <span class={`presence ${status}`} title={t(words[status])}>
      <span class="unseen">{t(words[status])}</span>
    </span>
  )
}
