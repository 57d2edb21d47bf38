import "../kit/page.css"
import "./login.css"
import { render } from "preact"
import { useEffect, useState } from "preact/hooks"
import { Refusal } from "../kit/api.ts"
import { Form, TextField } from "../kit/forms.tsx"
import { t } from "../kit/text.ts"
import "../kit/theme.ts"
import { AppCodeField, BackupCodes, SecretToScan } from "../kit/second-factor.tsx"
import { call, pageAt, session } from "./client.ts"
import type { LoginReply } from "./wire.ts"

const enter = () => location.replace(pageAt("ui-dashboard") + location.hash)

/** The way in: the password, then a code; the first time the second factor is set up on the way. */
function Login() {
  const [challenge, setChallenge] = useState<LoginReply>()
  const [codes, setCodes] = useState<readonly string[]>()
  const [isKnown, setKnown] = useState(session.token.value === null ? false : undefined)

  // A tab that has a session already goes on.
  useEffect(() => {
    if (session.token.value !== null) call("GET /auth/security-status").then(enter, () => setKnown(false))
  }, [])

  const opened = (reply: LoginReply) => {
    if (reply.token === null) return setChallenge(reply)
    session.keep(reply.token)
    if (reply.backup_codes?.length) setCodes(reply.backup_codes)
    else enter()
  }

  if (isKnown === undefined) return <p class="loading">{t("One moment …")}</p>
  if (codes) return <BackupCodes codes={codes} onDone={enter} />
  if (!challenge) return <Password onReply={opened} />
  return challenge.status === "otp_setup_required" ? (
    <SetUp challenge={challenge} onReply={opened} onBack={() => setChallenge(undefined)} />
  ) : (
    <Verify challenge={challenge} onReply={opened} onBack={() => setChallenge(undefined)} />
  )
}

interface Step {
  readonly onReply: (reply: LoginReply) => void
  readonly onBack: () => void
}

function Password({ onReply }: Pick<Step, "onReply">) {
  const [username, setUsername] = useState("")
  const [password, setPassword] = useState("")
  return (
    <>
      <h1>{t("Sign in")}</h1>
      <Form
        does={t("Continue")}
        onSubmit={async () => onReply(await call("POST /login", { body: { username, password } }))}
      >
        <TextField
          label={t("Name")}
          value={username}
          onValue={setUsername}
          autocomplete="username"
          autocapitalize="none"
          spellcheck={false}
          required
          maxLength={100}
          takesFocus
        />
        <TextField
          label={t("Password")}
          type="password"
          value={password}
          onValue={setPassword}
          autocomplete="current-password"
          required
          maxLength={200}
        />
      </Form>
    </>
  )
}

/** A challenge that is over leads back to the password. */
const verify = async (challenge: LoginReply, code: string, { onReply, onBack }: Step) => {
  try {
    onReply(
      await call("POST /verify-otp", {
        body: {
          admin_id: challenge.admin_id ?? "",
          challenge_token: challenge.challenge_token ?? "",
          is_setup: challenge.status === "otp_setup_required",
          code: code.replace(/[\s-]/g, ""),
        },
      }),
    )
  } catch (error) {
    if (error instanceof Refusal && /challenge/i.test(error.message)) setTimeout(onBack, 3_000)
    throw error
  }
}

function Verify({ challenge, ...step }: Step & { challenge: LoginReply }) {
  const [code, setCode] = useState("")
  return (
    <>
      <h1>{t("Second factor")}</h1>
      <Form does={t("Sign in")} onCancel={step.onBack} onSubmit={() => verify(challenge, code, step)}>
        <TextField
          label={t("Code")}
          hint={t("The six digits of your authenticator app, or one of your backup codes.")}
          value={code}
          onValue={setCode}
          autocomplete="one-time-code"
          inputMode="text"
          required
          minLength={6}
          maxLength={16}
          takesFocus
        />
      </Form>
    </>
  )
}

function SetUp({ challenge, ...step }: Step & { challenge: LoginReply }) {
  const [code, setCode] = useState("")
  return (
    <>
      <h1>{t("Set up your second factor")}</h1>
      <p>
        {t("A password alone opens nothing here. Scan this with an authenticator app, then enter the code it shows.")}
      </p>
      <SecretToScan uri={challenge.otp_qr_uri ?? ""} secret={challenge.otp_secret ?? ""} />
      <Form does={t("Turn on and sign in")} onCancel={step.onBack} onSubmit={() => verify(challenge, code, step)}>
        <AppCodeField label={t("Code")} value={code} onValue={setCode} />
      </Form>
    </>
  )
}

render(
  <main>
    <p class="server">{document.body.dataset["server"]}</p>
    <Login />
  </main>,
  document.getElementById("page")!,
)
