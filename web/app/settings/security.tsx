import { useState } from "preact/hooks"
import type { TwoFactorSetupResponse } from "../../../client/contract.ts"
import { Form, TextField } from "../../kit/forms.tsx"
import { useResource } from "../../kit/resource.ts"
import { AppCodeField, SecretToScan } from "../../kit/second-factor.tsx"
import { Loaded } from "../../kit/states.tsx"
import { t } from "../../kit/text.ts"
import { say } from "../../kit/toasts.tsx"
import { me } from "../session.ts"
import { Passkeys } from "./passkeys.tsx"

export function Security() {
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
      <Passkeys />
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
