import { useState } from "preact/hooks"
import { ask } from "../../kit/dialog.tsx"
import { Form, Select, TextArea, TextField } from "../../kit/forms.tsx"
import { moment, number } from "../../kit/format.ts"
import { Time } from "../../kit/time.tsx"
import { useKeys } from "../../kit/keys.ts"
import { useResource } from "../../kit/resource.ts"
import { linkTo } from "../../kit/router.ts"
import { Badge, Facts, Loaded } from "../../kit/states.tsx"
import { count, t } from "../../kit/text.ts"
import { attempt, say } from "../../kit/toasts.tsx"
import { call } from "../client.ts"
import { Header } from "../header.tsx"
import {
  askSignOut,
  LockDialog,
  RenameDialog,
  unlock,
  UploadBlockDialog,
  UserLink,
  type LockInput,
} from "../sanctions.tsx"
import type { UserDetail } from "../wire.ts"
import { DeletionBadge } from "./users.tsx"

export function UserPage({ id }: { id: string }) {
  const user = useResource(signal => call("GET /users/:user_id", { params: { user_id: id } }, { signal }), [id])
  return <Loaded of={user}>{data => <Shown user={data} reload={user.reload} />}</Loaded>
}

interface OfUser {
  readonly user: UserDetail
  readonly reload: () => void
}

/** The operator's lock as it would be set again now. */
const lockOf = ({ locked_until, lock_reason }: UserDetail): LockInput => ({
  length: locked_until === null ? "" : String(Math.max(1, Math.ceil(locked_until - Date.now() / 1_000))),
  reason: lock_reason ?? "",
})

function Shown({ user, reload }: OfUser) {
  const [dialog, setDialog] = useState<"lock" | "rename" | "uploads">()
  const close = () => setDialog(undefined)
  const isGone = user.deletion_status === "purged"
  const isLocked = user.lock_kind === "operator"
  const lockOrUnlock = () => (isLocked ? void unlock(user, reload, lockOf(user)) : setDialog("lock"))
  useKeys(t("This user"), [
    { key: "l", does: t("Lock or unlock"), run: isGone ? undefined : lockOrUnlock },
    { key: "o", does: t("Sign out everywhere"), run: isGone ? undefined : () => askSignOut(user) },
    { key: "n", does: t("Write a note"), run: () => document.querySelector<HTMLElement>("#notes textarea")?.focus() },
  ])
  return (
    <>
      <p class="back">
        <a href={linkTo(["users"])}>{t("Users")}</a>
      </p>
      <Header
        title={
          <>
            {user.username} <States user={user} />
          </>
        }
        about={<code>{user.id}</code>}
      >
        {!isGone && (
          <>
            <button type="button" class={isLocked ? "strong" : "danger"} onClick={lockOrUnlock}>
              {isLocked ? t("Unlock") : t("Lock …")} <kbd>l</kbd>
            </button>
            {user.lock_kind === "failed_logins" && (
              <button type="button" onClick={() => void unlock(user, reload)}>
                {t("Allow the sign-in")}
              </button>
            )}
            <button type="button" onClick={() => askSignOut(user)}>
              {t("Sign out …")} <kbd>o</kbd>
            </button>
            <button type="button" onClick={() => setDialog("rename")}>
              {t("New name …")}
            </button>
            <button type="button" onClick={() => setDialog("uploads")}>
              {t("Block uploads …")}
            </button>
          </>
        )}
      </Header>
      <div class="columns">
        <section class="card" aria-labelledby="account">
          <h2 id="account">{t("Account")}</h2>
          <Facts
            of={[
              [t("Made"), <Time at={user.created_at} />],
              [t("Last sign-in"), <Time at={user.last_login} none={t("never")} />],
              [t("E-mail"), user.email === null ? t("none") : t("stored encrypted; nobody reads it here")],
              [
                t("Second factor"),
                user.totp_enabled ? (
                  <>
                    {t("on; if it is lost, somebody at the machine takes it off:")}{" "}
                    <code>npm run operator -- second-factor off {user.username}</code>
                  </>
                ) : (
                  t("off")
                ),
              ],
              [t("Sessions"), number(user.session_count)],
              [t("Servers owned"), number(user.owned_server_count)],
              [
                t("Bots"),
                user.bot && user.owner_id ? (
                  <>
                    {t("is one, of")} <UserLink id={user.owner_id} />
                  </>
                ) : (
                  number(user.bot_count)
                ),
              ],
              ...(user.permissions.length > 0 ? [[t("Permissions"), user.permissions.join(", ")] as const] : []),
              ...(user.account_locked
                ? [
                    [
                      user.lock_kind === "failed_logins"
                        ? t("Sign-in locked after wrong passwords until")
                        : t("Locked until"),
                      <Time at={user.locked_until} none={t("it is unlocked")} />,
                    ] as const,
                  ]
                : []),
              ...(user.lock_reason ? [[t("Reason"), user.lock_reason] as const] : []),
              ...(user.rename_reason ? [[t("Reason for a new name"), user.rename_reason] as const] : []),
            ]}
          />
          <p>
            <a href={linkTo(["trail"], { target: user.id })}>{t("What operators did here")}</a>
          </p>
        </section>
        {!isGone && <Standing user={user} reload={reload} />}
        <Notes id={user.id} />
        <Deletion user={user} reload={reload} />
      </div>
      {dialog === "lock" && <LockDialog who={user} onClose={close} onChange={reload} />}
      {dialog === "rename" && <RenameDialog who={user} onClose={close} onChange={reload} />}
      {dialog === "uploads" && <UploadBlockDialog who={user} onClose={close} />}
    </>
  )
}

function States({ user }: { user: UserDetail }) {
  return (
    <span class="badges">
      <DeletionBadge of={{ ...user, account_locked: user.lock_kind === "operator" }} />
      {user.lock_kind === "failed_logins" && <Badge tone="warm">{t("wrong passwords")}</Badge>}
      {user.force_username_change && <Badge tone="warm">{t("has to choose a name")}</Badge>}
    </span>
  )
}

/** Tier and badges. */
function Standing({ user, reload }: OfUser) {
  const known = useResource(async signal => {
    const [tiers, badges] = await Promise.all([
      call("GET /api/v1/admin/tiers", {}, { signal }),
      call("GET /api/v1/admin/badges", {}, { signal }),
    ])
    return { tiers: Object.keys(tiers.tiers), badges: badges.badges }
  }, [])
  const setTier = async (tier: string) => {
    const params = { user_id: user.id }
    const put = (tier: string) => call("PUT /users/:user_id/tier", { params, body: { tier } })
    await attempt(
      () => put(tier),
      t("{username} is in the tier {tier}.", { username: user.username, tier }),
      async () => {
        await attempt(() => put(user.tier), t("Undone."))
        reload()
      },
    )
    reload()
  }
  const setBadge = async (badge: string, isGiven: boolean) => {
    const input = { params: { user_id: user.id, badge } }
    const change = (give: boolean) =>
      give ? call("POST /users/:user_id/badges/:badge", input) : call("DELETE /users/:user_id/badges/:badge", input)
    await attempt(
      () => change(isGiven),
      isGiven ? t("Badge {badge} given.", { badge }) : t("Badge {badge} taken away.", { badge }),
      async () => {
        await attempt(() => change(!isGiven), t("Undone."))
        reload()
      },
    )
    reload()
  }
  return (
    <section class="card" aria-labelledby="standing">
      <h2 id="standing">{t("Tier and badges")}</h2>
      <Loaded of={known}>
        {({ tiers, badges }) => (
          <>
            <Select
              label={t("Tier")}
              value={user.tier}
              choices={[...new Set([user.tier, ...tiers])].map(tier => [tier, tier] as const)}
              onValue={tier => void setTier(tier)}
            />
            <fieldset class="checks">
              <legend>{t("Badges")}</legend>
              {badges.map(({ name, display_name }) => (
                <label key={name}>
                  <input
                    type="checkbox"
                    checked={user.badges.includes(name)}
                    onChange={event => void setBadge(name, event.currentTarget.checked)}
                  />
                  {display_name}
                </label>
              ))}
            </fieldset>
          </>
        )}
      </Loaded>
    </section>
  )
}

function Notes({ id }: { id: string }) {
  const params = { user_id: id }
  const notes = useResource(signal => call("GET /users/:user_id/notes", { params }, { signal }), [id])
  const [text, setText] = useState<string>()
  return (
    <section class="card" id="notes" aria-labelledby="notes-title">
      <h2 id="notes-title">{t("Notes")}</h2>
      <Loaded of={notes}>
        {data => (
          <Form
            does={t("Save the notes")}
            isReady={text !== undefined && text !== data.notes}
            onSubmit={async () => {
              const before = data.notes
              const put = (notes: string) => call("POST /users/:user_id/notes", { params, body: { notes } })
              await put(text ?? "")
              say(t("The notes are saved."), async () => {
                await attempt(() => put(before), t("Undone."))
                setText(undefined)
                notes.reload()
              })
              setText(undefined)
              notes.reload()
            }}
          >
            <TextArea
              label={t("For operators only")}
              value={text ?? data.notes}
              onValue={setText}
              rows={5}
              maxLength={5_000}
            />
          </Form>
        )}
      </Loaded>
    </section>
  )
}

function Deletion({ user, reload }: OfUser) {
  const [date, setDate] = useState("")
  const params = { user_id: user.id }
  const { username } = user
  const purge = () =>
    ask({
      title: t("Delete {username} for good?", { username }),
      will: (
        <>
          <p>{t("The account is erased at once: its profile, sessions, settings and files. It cannot be undone.")}</p>
          <ul>
            <li>{count(user.session_count, "{n} session ends", "{n} sessions end")}</li>
            <li>
              {count(
                user.owned_server_count,
                "{n} server that it owns is deleted",
                "{n} servers that it owns are deleted",
              )}
            </li>
            <li>{count(user.bot_count, "{n} bot of it is deleted", "{n} bots of it are deleted")}</li>
          </ul>
        </>
      ),
      does: t("Delete for good"),
      isDangerous: true,
      typed: username,
      work: async () => {
        await call("POST /users/:user_id/force-purge", { params })
        say(t("{username} is deleted.", { username }))
        reload()
      },
    })
  return (
    <section class="card" aria-labelledby="deletion">
      <h2 id="deletion">{t("Deletion")}</h2>
      {user.deletion_status === "purged" && <p>{t("This account is deleted.")}</p>}
      {user.deletion_status === "active" && <p>{t("Nobody has asked for it.")}</p>}
      {user.deletion_status === "frozen" && (
        <>
          <p>
            {t("The person asked for it. It happens on {date}; until then the account is frozen.", {
              date: user.deletion_at === null ? "–" : moment(user.deletion_at),
            })}
          </p>
          <p class="buttons start">
            <button
              type="button"
              class="strong"
              onClick={() =>
                void attempt(
                  () => call("POST /users/:user_id/cancel-deletion", { params }),
                  t("{username} is not deleted.", { username }),
                ).then(reload)
              }
            >
              {t("Cancel the deletion")}
            </button>
          </p>
          <Form
            does={t("Delay")}
            isReady={date !== ""}
            onSubmit={async () => {
              const before = user.deletion_at
              const put = (deletion_at: number) =>
                call("POST /users/:user_id/delay-deletion", { params, query: { deletion_at } })
              const at = Math.floor(new Date(`${date}T00:00:00`).getTime() / 1_000)
              await put(at)
              const undo = async (before: number) => {
                await attempt(() => put(before), t("Undone."))
                reload()
              }
              say(
                t("The deletion is on {date}.", { date: moment(at) }),
                before === null ? undefined : () => undo(before),
              )
              reload()
            }}
          >
            <TextField label={t("Another day")} type="date" value={date} onValue={setDate} />
          </Form>
        </>
      )}
      {user.deletion_status !== "purged" && (
        <p class="buttons start">
          <button type="button" class="danger" onClick={purge}>
            {t("Delete for good …")}
          </button>
        </p>
      )}
    </section>
  )
}
