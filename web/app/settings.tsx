import { useRef, useState } from "preact/hooks"
import type { TwoFactorSetupResponse } from "../../client/contract.ts"
import { offerFile } from "../kit/api.ts"
import { ask } from "../kit/dialog.tsx"
import { Checkbox, Form, Select, TextField } from "../kit/forms.tsx"
import { useResource } from "../kit/resource.ts"
import { linkTo } from "../kit/router.ts"
import { AppCodeField, SecretToScan } from "../kit/second-factor.tsx"
import { Loaded } from "../kit/states.tsx"
import { t } from "../kit/text.ts"
import { theme } from "../kit/theme.ts"
import { Time } from "../kit/time.tsx"
import { attempt, say, sayFailed } from "../kit/toasts.tsx"
import { avatarOf } from "./names.ts"
import { me, signOut, watch } from "./session.ts"

const parts = [
  ["account", "Account"],
  ["security", "Password and second factor"],
  ["sessions", "Sessions"],
  ["privacy", "Privacy"],
  ["look", "Look"],
] as const

/** What a person decides for themselves. */
export function Settings({ part }: { part: string }) {
  return (
    <div class="page">
      <nav class="parts" aria-label={t("Settings")}>
        {parts.map(([name, title]) => (
          <a key={name} href={linkTo(["settings", name])} aria-current={name === part ? "page" : undefined}>
            {t(title)}
          </a>
        ))}
        <button type="button" class="quiet" onClick={() => void signOut()}>
          {t("Sign out")}
        </button>
      </nav>
      {part === "security" ? (
        <Security />
      ) : part === "sessions" ? (
        <Sessions />
      ) : part === "privacy" ? (
        <Privacy />
      ) : part === "look" ? (
        <Look />
      ) : (
        <Account />
      )}
    </div>
  )
}

function Account() {
  const { client, account } = me()
  const { user } = watch("user").state
  const picker = useRef<HTMLInputElement>(null)
  const known = account.value
  const [username, setUsername] = useState<string>()
  const [email, setEmail] = useState<string>()
  const [password, setPassword] = useState("")
  const setPicture = async (file: File | undefined) => {
    if (!file) return
    const content = new Uint8Array(await file.arrayBuffer())
    await attempt(
      () => client.putAvatar({ file: { bytes: content, filename: file.name, type: file.type } }),
      t("Your picture is changed."),
    )
  }
  const save = async () => {
    account.value = await client.editMe({
      ...(username !== undefined && { username }),
      ...(email !== undefined && { email }),
      ...(password && { current_password: password }),
    })
    setPassword("")
    say(t("Saved."))
  }
  return (
    <>
      <section class="card">
        <h2>{t("Picture")}</h2>
        <p>
          <img
            class="avatar"
            src={avatarOf(user?.id ?? "0", user?.avatar_url)}
            alt={t("Your picture")}
            width={96}
            height={96}
          />
        </p>
        <p class="buttons start">
          <button type="button" onClick={() => picker.current?.click()}>
            {t("Choose a picture")}
          </button>
          <button
            type="button"
            onClick={() => void attempt(() => client.deleteAvatar(), t("Your picture is removed."))}
          >
            {t("Remove it")}
          </button>
        </p>
        <input
          ref={picker}
          type="file"
          accept="image/png,image/jpeg,image/gif,image/webp"
          hidden
          onChange={event => {
            setPicture(event.currentTarget.files?.[0]).catch(sayFailed)
            event.currentTarget.value = ""
          }}
        />
      </section>
      <section class="card">
        <h2>{t("Name and address")}</h2>
        {known && (
          <Form does={t("Save")} onSubmit={save}>
            <TextField
              label={t("Name")}
              value={username ?? known.username}
              onValue={setUsername}
              required
              minLength={3}
              maxLength={32}
            />
            <TextField
              label={t("E-mail address")}
              value={email ?? known.email ?? ""}
              onValue={setEmail}
              required
              maxLength={254}
              autocomplete="email"
            />
            <TextField
              label={t("Your password")}
              hint={t("It is asked for when the address changes.")}
              type="password"
              value={password}
              onValue={setPassword}
              autocomplete="current-password"
            />
          </Form>
        )}
      </section>
    </>
  )
}

function Security() {
  const { client } = me()
  const [current, setCurrent] = useState("")
  const [next, setNext] = useState("")
  const change = async () => {
    await client.editMe({ current_password: current, password: next })
    setCurrent("")
    setNext("")
    say(t("Your password is changed."))
  }
  return (
    <>
      <section class="card">
        <h2>{t("Password")}</h2>
        <Form does={t("Change it")} onSubmit={change}>
          <TextField
            label={t("The password you have")}
            type="password"
            value={current}
            onValue={setCurrent}
            autocomplete="current-password"
            required
          />
          <TextField
            label={t("The new one")}
            type="password"
            value={next}
            onValue={setNext}
            autocomplete="new-password"
            required
          />
        </Form>
      </section>
      <SecondFactor />
    </>
  )
}

function SecondFactor() {
  const { client } = me()
  const status = useResource(() => client.getTwoFactorStatus(), [])
  const [setup, setSetup] = useState<TwoFactorSetupResponse>()
  const [password, setPassword] = useState("")
  const [code, setCode] = useState("")
  const begin = async () => {
    setSetup(await client.enableTwoFactor({ password }))
    setPassword("")
  }
  const confirm = async () => {
    await client.confirmTwoFactor({ code: code.trim() })
    setSetup(undefined)
    setCode("")
    status.reload()
    say(t("The second factor is on."))
  }
  const end = async () => {
    await client.disableTwoFactor({ code: code.trim(), password })
    setCode("")
    setPassword("")
    status.reload()
    say(t("The second factor is off."))
  }
  return (
    <section class="card">
      <h2>{t("Second factor")}</h2>
      <Loaded of={status}>
        {({ enabled }) =>
          setup ? (
            <>
              <p>
                {t("Scan this with an authenticator app, and keep the codes for the day on which you do not have it.")}
              </p>
              <SecretToScan uri={setup.qr_uri} secret={setup.secret} />
              <p class="codes">
                {setup.backup_codes.map(one => (
                  <code key={one}>{one}</code>
                ))}
              </p>
              <Form does={t("Turn it on")} onCancel={() => setSetup(undefined)} onSubmit={confirm}>
                <AppCodeField label={t("Code")} value={code} onValue={setCode} />
              </Form>
            </>
          ) : enabled ? (
            <Form does={t("Turn it off")} isDangerous onSubmit={end}>
              <p>{t("It is on.")}</p>
              <TextField
                label={t("Your password")}
                type="password"
                value={password}
                onValue={setPassword}
                autocomplete="current-password"
              />
              <TextField label={t("Code")} value={code} onValue={setCode} autocomplete="one-time-code" required />
            </Form>
          ) : (
            <Form does={t("Set it up")} onSubmit={begin}>
              <p>{t("A code from your phone, beside your password.")}</p>
              <TextField
                label={t("Your password")}
                type="password"
                value={password}
                onValue={setPassword}
                autocomplete="current-password"
                required
              />
            </Form>
          )
        }
      </Loaded>
    </section>
  )
}

function Sessions() {
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

function Privacy() {
  const { client, account } = me()
  const settings = useResource(() => client.getMessagingSettings(), [])
  const edit = (change: Parameters<typeof client.editMessagingSettings>[0]) =>
    void attempt(async () => {
      const changed = await client.editMessagingSettings(change ?? {})
      settings.set(() => changed)
    })
  const remove = () =>
    ask({
      title: t("Delete your account?"),
      will: <p>{t("It is frozen now, and erased later. You can sign in until then to keep it.")}</p>,
      does: t("Delete my account"),
      typed: account.value?.username ?? "",
      isDangerous: true,
      work: () => client.deleteAccount(),
    })
  return (
    <>
      <section class="card">
        <h2>{t("Messages")}</h2>
        <Loaded of={settings}>
          {data => (
            <>
              <Checkbox
                label={t("Others see what I have read")}
                value={data.read_receipts_enabled}
                onValue={on => edit({ read_receipts_enabled: on })}
              />
              <Checkbox
                label={t("Others see that I am typing")}
                value={data.typing_indicators_enabled}
                onValue={on => edit({ typing_indicators_enabled: on })}
              />
              <Select
                label={t("Who may write to me")}
                value={data.allow_dms_from}
                onValue={value => edit({ allow_dms_from: value })}
                choices={[
                  ["everyone", t("Everybody")],
                  ["friends", t("Friends")],
                  ["none", t("Nobody")],
                ]}
              />
            </>
          )}
        </Loaded>
      </section>
      <Export />
      <section class="card">
        <h2>{t("The end")}</h2>
        <button type="button" class="danger" onClick={remove}>
          {t("Delete my account")}
        </button>
      </section>
    </>
  )
}

function Export() {
  const { client } = me()
  const [isBusy, setBusy] = useState(false)
  const collect = async () => {
    setBusy(true)
    await attempt(async () => {
      await client.requestExport()
      let found = await client.getExport()
      for (let tries = 0; found.status !== "ready" || found.is_another_pending; tries++) {
        if (tries === 60) throw new Error(t("It takes longer. Please come back in a while."))
        await new Promise(resolve => setTimeout(resolve, 2_000))
        found = await client.getExport()
      }
      const parts: unknown[] = []
      for (let part = 1; part <= found.parts; part++) parts.push(await client.getExportPart({ part }))
      const text = JSON.stringify({ export: found, parts }, null, 2)
      offerFile("starling-export.json", new Blob([text], { type: "application/json" }))
    })
    setBusy(false)
  }
  return (
    <section class="card">
      <h2>{t("Your data")}</h2>
      <p>{t("What is stored about you, as a file.")}</p>
      <button type="button" disabled={isBusy} onClick={() => void collect()}>
        {t("Export it")}
      </button>
    </section>
  )
}

const Look = () => (
  <section class="card">
    <h2>{t("Look")}</h2>
    <Select
      label={t("Colours")}
      value={theme.value}
      onValue={value => (theme.value = value)}
      choices={[
        ["system", t("As the system")],
        ["light", t("Light")],
        ["dark", t("Dark")],
      ]}
    />
  </section>
)
