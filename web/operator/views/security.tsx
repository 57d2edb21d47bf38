import { useState } from "preact/hooks"
import { Dialog } from "../../kit/dialog.tsx"
import { Form, TextField } from "../../kit/forms.tsx"
import { Time } from "../../kit/time.tsx"
import { useResource } from "../../kit/resource.ts"
import { Badge, Facts, Loaded } from "../../kit/states.tsx"
import { count, t } from "../../kit/text.ts"
import { say } from "../../kit/toasts.tsx"
import { call, session } from "../client.ts"
import { Header } from "../header.tsx"
import { AppCodeField, BackupCodes, SecretToScan } from "../../kit/second-factor.tsx"
import type { LoginReply, SecurityStatus } from "../wire.ts"

const lowCodes = 3

export function Security() {
  const status = useResource(signal => call("GET /auth/security-status", {}, { signal }), [])
  return (
    <>
      <Header title={t("Your account")} about={t("Of this area: it is no account of a user.")} />
      <Loaded of={status}>
        {data => (
          <div class="columns">
            <section class="card" aria-labelledby="who">
              <h2 id="who">{data.username}</h2>
              <Facts
                of={[
                  [t("Made"), <Time at={data.created_at} />],
                  [t("Last sign-in"), <Time at={data.last_login} none={t("never")} />],
                  [
                    t("Second factor"),
                    data.otp_enabled ? <Badge tone="good">{t("on")}</Badge> : <Badge tone="bad">{t("off")}</Badge>,
                  ],
                  [t("Here it is"), data.otp_required ? t("required of everybody") : t("left to each operator")],
                  [
                    t("Backup codes left"),
                    data.otp_enabled && data.backup_codes_remaining < lowCodes ? (
                      <Badge tone="warm">{data.backup_codes_remaining}</Badge>
                    ) : (
                      data.backup_codes_remaining
                    ),
                  ],
                ]}
              />
            </section>
            <Password />
            <SecondFactor status={data} reload={status.reload} />
          </div>
        )}
      </Loaded>
    </>
  )
}

const minLength = 12

function Password() {
  const [current, setCurrent] = useState("")
  const [next, setNext] = useState("")
  const [again, setAgain] = useState("")
  return (
    <section class="card" aria-labelledby="password">
      <h2 id="password">{t("Password")}</h2>
      <Form
        does={t("Change the password")}
        onSubmit={async () => {
          if (next !== again) throw new Error(t("The two new passwords are not the same."))
          await call("POST /auth/change-password", { body: { current_password: current, new_password: next } })
          say(t("Your password is changed. Your other sessions are over."))
          for (const clear of [setCurrent, setNext, setAgain]) clear("")
        }}
      >
        <PasswordField label={t("The one of now")} value={current} onValue={setCurrent} />
        <TextField
          label={t("The new one")}
          hint={t("At least {n} characters. It ends your other sessions.", { n: minLength })}
          type="password"
          autocomplete="new-password"
          minLength={minLength}
          maxLength={200}
          required
          value={next}
          onValue={setNext}
        />
        <TextField
          label={t("The new one again")}
          type="password"
          autocomplete="new-password"
          required
          value={again}
          onValue={setAgain}
        />
      </Form>
    </section>
  )
}

const PasswordField = (options: { label: string; value: string; onValue: (value: string) => void }) => (
  <TextField type="password" autocomplete="current-password" maxLength={200} required {...options} />
)

type Step = "begin" | "disable" | "codes" | { readonly challenge: LoginReply } | { readonly codes: readonly string[] }

function SecondFactor({ status, reload }: { status: SecurityStatus; reload: () => void }) {
  const [step, setStep] = useState<Step>()
  const done = () => {
    setStep(undefined)
    reload()
  }
  return (
    <section class="card" aria-labelledby="factor">
      <h2 id="factor">{t("Second factor")}</h2>
      {status.otp_enabled && (
        <p class="faint">
          {count(status.backup_codes_remaining, "{n} backup code is left.", "{n} backup codes are left.")}
        </p>
      )}
      <p class="buttons start">
        <button type="button" onClick={() => setStep("begin")}>
          {status.otp_enabled ? t("Set up another device …") : t("Set it up …")}
        </button>
        {status.otp_enabled && (
          <>
            <button type="button" onClick={() => setStep("codes")}>
              {t("New backup codes …")}
            </button>
            <button type="button" class="danger" onClick={() => setStep("disable")}>
              {t("Turn it off …")}
            </button>
          </>
        )}
      </p>
      {step === "begin" && <Begin onChallenge={challenge => setStep({ challenge })} onClose={done} />}
      {step === "codes" && <NewCodes onCodes={codes => setStep({ codes })} onClose={done} />}
      {step === "disable" && <Disable isRequired={status.otp_required} onClose={done} />}
      {typeof step === "object" && "challenge" in step && (
        <Confirm challenge={step.challenge} onCodes={codes => setStep({ codes })} onClose={done} />
      )}
      {typeof step === "object" && "codes" in step && (
        <Dialog title={t("Backup codes")} onClose={done}>
          <BackupCodes codes={step.codes} onDone={done} />
        </Dialog>
      )}
    </section>
  )
}

function Begin({ onChallenge, onClose }: { onChallenge: (challenge: LoginReply) => void; onClose: () => void }) {
  const [password, setPassword] = useState("")
  return (
    <Dialog title={t("Set up a second factor")} onClose={onClose}>
      <Form
        does={t("Continue")}
        onCancel={onClose}
        onSubmit={async () =>
          onChallenge(await call("POST /auth/2fa/begin-setup", { body: { current_password: password } }))
        }
      >
        <p>
          {t(
            "What you have works until the new one is confirmed; then the old device and all backup codes are worthless.",
          )}
        </p>
        <PasswordField label={t("Your password")} value={password} onValue={setPassword} />
      </Form>
    </Dialog>
  )
}

function Confirm({
  challenge,
  onCodes,
  onClose,
}: {
  challenge: LoginReply
  onCodes: (codes: readonly string[]) => void
  onClose: () => void
}) {
  const [code, setCode] = useState("")
  return (
    <Dialog title={t("Scan it")} onClose={onClose}>
      <SecretToScan uri={challenge.otp_qr_uri ?? ""} secret={challenge.otp_secret ?? ""} />
      <Form
        does={t("Turn it on")}
        onCancel={onClose}
        onSubmit={async () => {
          const reply = await call("POST /verify-otp", {
            body: {
              admin_id: challenge.admin_id ?? "",
              challenge_token: challenge.challenge_token ?? "",
              is_setup: true,
              code: code.replace(/[\s-]/g, ""),
            },
          })
          if (reply.token !== null) {
            // It opened a session; the one of before is not needed any more. That it cannot be ended
            // is no reason to lose the codes: it ends by itself.
            void call("POST /logout").catch(() => undefined)
            session.keep(reply.token)
          }
          say(t("The second factor is on."))
          if (reply.backup_codes?.length) onCodes(reply.backup_codes)
          else onClose()
        }}
      >
        <AppCodeField label={t("The code that it shows")} value={code} onValue={setCode} />
      </Form>
    </Dialog>
  )
}

function NewCodes({ onCodes, onClose }: { onCodes: (codes: readonly string[]) => void; onClose: () => void }) {
  const [password, setPassword] = useState("")
  return (
    <Dialog title={t("New backup codes")} onClose={onClose}>
      <Form
        does={t("Make new codes")}
        isDangerous
        onCancel={onClose}
        onSubmit={async () => {
          const body = { current_password: password }
          onCodes((await call("POST /auth/2fa/regenerate-backup-codes", { body })).backup_codes)
        }}
      >
        <p>{t("All codes that you have now are worthless then. It cannot be undone.")}</p>
        <PasswordField label={t("Your password")} value={password} onValue={setPassword} />
      </Form>
    </Dialog>
  )
}

function Disable({ isRequired, onClose }: { isRequired: boolean; onClose: () => void }) {
  const [password, setPassword] = useState("")
  const [code, setCode] = useState("")
  return (
    <Dialog title={t("Turn the second factor off?")} onClose={onClose}>
      <Form
        does={t("Turn it off")}
        isDangerous
        onCancel={onClose}
        onSubmit={async () => {
          await call("POST /auth/2fa/disable", {
            body: { current_password: password, code: code.replace(/[\s-]/g, "") },
          })
          say(t("The second factor is off."))
          onClose()
        }}
      >
        <p>
          {t("The device and all backup codes are worthless then.")}{" "}
          {isRequired
            ? t("It is required here: the next sign-in sets up another one.")
            : t("Your password alone opens this area.")}
        </p>
        <PasswordField label={t("Your password")} value={password} onValue={setPassword} />
        <TextField
          label={t("A code, or a backup code")}
          value={code}
          onValue={setCode}
          required
          minLength={6}
          maxLength={16}
        />
      </Form>
    </Dialog>
  )
}
