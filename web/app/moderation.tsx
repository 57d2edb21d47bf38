import type { Snowflake } from "../../client/contract.ts"
import type { KnownServer } from "../../client/state.ts"
import { ask } from "../kit/dialog.tsx"
import { Select } from "../kit/forms.tsx"
import { t } from "../kit/text.ts"
import { Time } from "../kit/time.tsx"
import { attempt, say } from "../kit/toasts.tsx"
import { answersFor, holderIn, rankOf, useMay } from "./may.ts"
import { me, ownId } from "./session.ts"

const maxReasonLength = 512
const hourSeconds = 3_600
const daySeconds = 24 * hourSeconds

/** As choices of a select: for how many seconds. */
const timeouts = () =>
  [
    ["300", t("5 minutes")],
    [String(hourSeconds), t("1 hour")],
    [String(daySeconds), t("1 day")],
    [String(7 * daySeconds), t("1 week")],
  ] as const

/** What can be decided about a member: nobody decides about who ranks as high as they do. */
export function Moderation({ known, user, name }: { known: KnownServer; user: Snowflake; name: string }) {
  const server_id = known.facts.id
  const may = useMay(server_id)
  const { client } = me()
  const holder = holderIn(known, user)
  if (rankOf(known, holder) >= rankOf(known, holderIn(known, ownId()))) return null
  const remove = () =>
    ask({
      title: t("Remove {name} from the server?", { name }),
      will: <p>{t("They lose their roles here. With an invite they can come back.")}</p>,
      does: t("Remove"),
      isDangerous: true,
      reason: { hint: t("It stands in the audit log."), maxLength: maxReasonLength },
      work: async reason => {
        await client.kickMember({ server_id, member_id: user, ...(reason && { reason }) })
        say(t("Removed."))
      },
    })
  const ban = () =>
    ask({
      title: t("Ban {name}?", { name }),
      will: <p>{t("They leave the server, and cannot come back until somebody lifts the ban.")}</p>,
      does: t("Ban"),
      isDangerous: true,
      reason: { hint: t("It stands in the audit log."), maxLength: maxReasonLength },
      work: async reason => {
        await client.banUser({ server_id, user_id: user, ...(reason && { reason }) })
        say(t("Banned."))
      },
    })
  return (
    <>
      {may("members.kick") && !answersFor(known, holder)["administrator"]?.isHeld && (
        <TimeOut server_id={server_id} user={user} name={name} until={holder.timeout_until ?? 0} />
      )}
      <p class="buttons start">
        {may("members.kick") && (
          <button type="button" class="danger" onClick={remove}>
            {t("Remove")}
          </button>
        )}
        {may("members.ban") && (
          <button type="button" class="danger" onClick={ban}>
            {t("Ban")}
          </button>
        )}
      </p>
    </>
  )
}

interface TimeOutOptions {
  readonly server_id: Snowflake
  readonly user: Snowflake
  readonly name: string
  /** Unix seconds; 0: never. */
  readonly until: number
}

function TimeOut({ server_id, user, name, until }: TimeOutOptions) {
  const { client } = me()
  const where = { server_id, member_id: user }
  const isTimedOut = until * 1_000 > Date.now()
  const choose = (seconds: string) => {
    const chosen = timeouts().find(([one]) => one === seconds)
    if (!chosen) return
    ask({
      title: t("Time {name} out for {duration}?", { name, duration: chosen[1] }),
      will: <p>{t("Until then they can only read: no messages, no reactions, no voice.")}</p>,
      does: t("Time out"),
      isDangerous: true,
      reason: { hint: t("Every member can see it."), maxLength: maxReasonLength },
      work: async reason => {
        await client.editMember({
          ...where,
          timeout_seconds: Number(seconds),
          ...(reason && { timeout_reason: reason }),
        })
        say(t("Timed out."))
      },
    })
  }
  return (
    <>
      <Select
        label={t("Time out")}
        value=""
        choices={[["", t("Choose …")], ...timeouts()]}
        hint={
          isTimedOut ? (
            <>
              {t("Timed out until:")} <Time at={until} />
            </>
          ) : undefined
        }
        onValue={choose}
      />
      {isTimedOut && (
        <p class="buttons start">
          <button
            type="button"
            onClick={() => void attempt(() => client.editMember({ ...where, timeout_seconds: 0 }), t("It is over."))}
          >
            {t("End the time-out")}
          </button>
        </p>
      )}
    </>
  )
}
