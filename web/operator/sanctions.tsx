import { useState } from "preact/hooks"
import { ask, Dialog } from "../kit/dialog.tsx"
import { Form, Select, TextField, type Choices } from "../kit/forms.tsx"
import { duration } from "../kit/format.ts"
import { linkTo } from "../kit/router.ts"
import { count, t } from "../kit/text.ts"
import { attempt, say } from "../kit/toasts.tsx"
import { call } from "./client.ts"

/** What an operator may do to an account. Each says what it did, and offers to take back what can be. */

export interface Person {
  readonly id: string
  readonly username: string
  readonly bot?: boolean
  /** Where they are known. */
  readonly session_count?: number
  readonly bot_count?: number
  readonly owned_server_count?: number
}

/** What ends, in words. */
export const sessionsOf = ({ session_count }: Person): string =>
  session_count === undefined
    ? t("Every session of the account ends, and its connections close.")
    : count(
        session_count,
        "{n} session ends, and its connection closes.",
        "{n} sessions end, and their connections close.",
      )

const day = 86_400
const lockLengths: Choices<string> = [
  ["", t("Until it is unlocked")],
  [String(day), t("A day")],
  [String(7 * day), t("A week")],
  [String(30 * day), t("30 days")],
]

/** What a lock asks for. `length`: seconds as text; empty is until it is unlocked. */
export function LockFields({
  length,
  onLength,
  reason,
  onReason,
}: {
  length: string
  onLength: (value: string) => void
  reason: string
  onReason: (value: string) => void
}) {
  return (
    <>
      <Select label={t("For how long")} value={length} choices={lockLengths} onValue={onLength} />
      <TextField
        label={t("Reason")}
        hint={t("The person reads it when they try to sign in.")}
        value={reason}
        onValue={onReason}
        maxLength={500}
      />
    </>
  )
}

export interface LockInput {
  /** Seconds; empty: until it is unlocked. */
  readonly length: string
  readonly reason: string
}

export async function lock(
  { id, username }: Person,
  { length, reason }: LockInput,
  onChange: () => void,
): Promise<void> {
  const seconds = length === "" ? null : Number(length)
  await call("POST /security/lock-user", {
    body: { user_id: id, duration_seconds: seconds, ...(reason && { reason }) },
  })
  onChange()
  const text =
    seconds === null
      ? t("{username} is locked and signed out everywhere.", { username })
      : t("{username} is locked for {length} and signed out everywhere.", { username, length: duration(seconds) })
  say(text, () => unlock({ id, username }, onChange))
}

/** `before`: the lock, where it can be put back. */
export const unlock = async (who: Person, onChange: () => void, before?: LockInput): Promise<void> => {
  await attempt(
    () => call("POST /security/unlock-user", { body: { user_id: who.id } }),
    t("{username} may sign in again.", { username: who.username }),
    before && (() => lock(who, before, onChange)),
  )
  onChange()
}

export function askSignOut(who: Person): void {
  const { id, username } = who
  ask({
    title: t("Sign {username} out everywhere?", { username }),
    will: (
      <p>
        {who.bot
          ? t("Its token ends, and its connections close. Its owner has to make a new token. It cannot be undone.")
          : `${sessionsOf(who)} ${t("They can sign in again at once. It cannot be undone.")}`}
      </p>
    ),
    does: t("Sign out everywhere"),
    isDangerous: true,
    work: async () => {
      await call("POST /security/force-logout", { body: { user_id: id } })
      say(t("{username} is signed out everywhere.", { username }))
    },
  })
}

export function LockDialog({ who, onClose, onChange }: { who: Person; onClose: () => void; onChange: () => void }) {
  const [length, setLength] = useState("")
  const [reason, setReason] = useState("")
  const bots = who.bot_count ?? 0
  return (
    <Dialog title={t("Lock {username}?", { username: who.username })} onClose={onClose}>
      <Form
        does={t("Lock the account")}
        isDangerous
        onCancel={onClose}
        onSubmit={async () => {
          await lock(who, { length, reason }, onChange)
          onClose()
        }}
      >
        <p>
          {sessionsOf(who)}{" "}
          {bots > 0 &&
            count(
              bots,
              "{n} bot of the account is refused as well.",
              "{n} bots of the account are refused as well.",
            )}{" "}
          {t("What it wrote stays. Unlocking undoes it, but for the sessions.")}
        </p>
        <LockFields length={length} onLength={setLength} reason={reason} onReason={setReason} />
      </Form>
    </Dialog>
  )
}

export function RenameDialog({ who, onClose, onChange }: { who: Person; onClose: () => void; onChange: () => void }) {
  const [reason, setReason] = useState("")
  const [ban, setBan] = useState<"no" | "yes">("no")
  return (
    <Dialog title={t("Ask {username} for another name?", { username: who.username })} onClose={onClose}>
      <Form
        does={t("Require another name")}
        isDangerous
        onCancel={onClose}
        onSubmit={async () => {
          await call("POST /users/:user_id/force-username-change", {
            params: { user_id: who.id },
            body: { ban_current: ban === "yes", ...(reason && { reason }) },
          })
          say(t("{username} has to choose another name before anything else.", { username: who.username }))
          onChange()
          onClose()
        }}
      >
        <p>
          {t(
            "Until this one account has another name, the server refuses everything else it asks for. Only the person can end this: it cannot be undone here.",
          )}
        </p>
        <TextField label={t("Reason, which they see")} value={reason} onValue={setReason} maxLength={200} />
        <Select
          label={t("The name of now")}
          value={ban}
          choices={[
            ["no", t("stays free for others")],
            ["yes", t("is banned for everybody")],
          ]}
          onValue={setBan}
        />
      </Form>
    </Dialog>
  )
}

export const hours: Choices<string> = [
  ["", t("For good")],
  ["1", t("An hour")],
  ["24", t("A day")],
  ["168", t("A week")],
  ["720", t("30 days")],
]

export function UploadBlockDialog({
  who,
  onClose,
  onChange,
}: {
  who: Person
  onClose: () => void
  onChange?: () => void
}) {
  const [reason, setReason] = useState("")
  const [length, setLength] = useState("")
  return (
    <Dialog title={t("Block {username} from uploads?", { username: who.username })} onClose={onClose}>
      <Form
        does={t("Block uploads")}
        isDangerous
        onCancel={onClose}
        onSubmit={async () => {
          await blockUploads(who, reason, length, () => onChange?.())
          onClose()
        }}
      >
        <p>{t("This one account can send no more files. It can write still, and files that were sent stay.")}</p>
        <TextField label={t("Reason")} value={reason} onValue={setReason} required maxLength={500} takesFocus />
        <Select label={t("For how long")} value={length} choices={hours} onValue={setLength} />
      </Form>
    </Dialog>
  )
}

export async function blockUploads({ id, username }: Person, reason: string, length: string, onChange: () => void) {
  await call("POST /blocked-users", {
    body: { user_id: id, reason, ...(length && { duration_hours: Number(length) }) },
  })
  onChange()
  say(t("{username} can send no more files.", { username }), async () => {
    await attempt(() => call("DELETE /blocked-users/:user_id", { params: { user_id: id } }), t("Undone."))
    onChange()
  })
}

export function UserLink({ id, name }: { id: string; name?: string | null }) {
  return <a href={linkTo(["users", id])}>{name ?? id}</a>
}
