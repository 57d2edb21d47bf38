import { useEffect, useState } from "preact/hooks"
import type { LoginResponse, PasskeyAssertion, PasswordRequirements } from "../../client/contract.ts"
import { Checkbox, Form, TextField } from "../kit/forms.tsx"
import { wordsOf } from "../kit/api.ts"
import { t } from "../kit/text.ts"
import { useResource } from "../kit/resource.ts"
import { hasPasskeys, signedWithPasskey, suggestPasskeys } from "./passkeys.ts"
import { anonymous, base, signedOutBecause, signIn } from "./session.ts"

type Step = "login" | "register" | "forgot" | "sent" | "verify"

/** What a person sees who is not signed in. */
export function Entry() {
  const [step, setStep] = useState<Step>(new URLSearchParams(location.search).has("register") ? "register" : "login")
  const [challenge, setChallenge] = useState<LoginResponse>()
  const done = (reply: LoginResponse) => {
    if (reply.token === null) setChallenge(reply)
    else signIn(reply.token)
  }
  const notBack = useReturn(done)
  return (
    <main class="entry">
      <p class="server">{document.body.dataset["server"]}</p>
      {signedOutBecause.value === "ended" && (
        <p class="notice warm" role="status">
          {t("You were signed out: this session has ended.")}
        </p>
      )}
      {notBack && (
        <p class="failure" role="alert">
          {notBack}
        </p>
      )}
      {challenge ? (
        <SecondFactor challenge={challenge} onDone={done} onBack={() => setChallenge(undefined)} />
      ) : step === "register" ? (
        <Register onDone={done} onVerify={() => setStep("verify")} onLogin={() => setStep("login")} />
      ) : step === "forgot" ? (
        <Forgot onSent={() => setStep("sent")} onBack={() => setStep("login")} />
      ) : step === "sent" ? (
        <Said
          text={t("If an account has this address, a mail with a link is on its way to it.")}
          onBack={() => setStep("login")}
        />
      ) : step === "verify" ? (
        <Said
          text={t("We have sent you a mail. Follow the link in it, then sign in.")}
          onBack={() => setStep("login")}
        />
      ) : (
        <Login onDone={done} onRegister={() => setStep("register")} onForgot={() => setStep("forgot")} />
      )}
    </main>
  )
}

function Said({ text, onBack }: { text: string; onBack: () => void }) {
  return (
    <>
      <p role="status">{text}</p>
      <button type="button" onClick={onBack}>
        {t("Back")}
      </button>
    </>
  )
}

function Login({
  onDone,
  onRegister,
  onForgot,
}: {
  onDone: (reply: LoginResponse) => void
  onRegister: () => void
  onForgot: () => void
}) {
  const [username, setUsername] = useState("")
  const [password, setPassword] = useState("")
  const { data } = useResource(() => anonymous.getCapabilities(), [])
  const ways = data?.features.sign_in
  const refused = useSuggestedPasskeys(ways?.passkey_alone === true, onDone)
  const providers = (
    <>
      {ways?.passkey_alone && hasPasskeys && <PasskeyButton does={t("Sign in with a passkey")} onDone={onDone} />}
      <Providers providers={ways?.providers ?? []} />
    </>
  )
  if (ways?.password === false)
    return (
      <>
        <h1>{t("Sign in")}</h1>
        {providers}
      </>
    )
  return (
    <>
      <h1>{t("Sign in")}</h1>
      <Form does={t("Sign in")} onSubmit={async () => onDone(await anonymous.login({ username, password }))}>
        <TextField
          label={t("Name or e-mail address")}
          value={username}
          onValue={setUsername}
          autocomplete={ways?.passkey_alone && hasPasskeys ? "username webauthn" : "username"}
          autocapitalize="none"
          spellcheck={false}
          required
          maxLength={254}
          takesFocus
        />
        <TextField
          label={t("Password")}
          type="password"
          value={password}
          onValue={setPassword}
          autocomplete="current-password"
          required
          maxLength={1024}
        />
      </Form>
      {refused && (
        <p class="failure" role="alert">
          {refused}
        </p>
      )}
      {providers}
      <p class="ways">
        <button type="button" class="quiet" onClick={onRegister}>
          {t("Make an account")}
        </button>
        <button type="button" class="quiet" onClick={onForgot}>
          {t("I forgot my password")}
        </button>
      </p>
    </>
  )
}

/** Who has a passkey chooses it where they would write their name. @returns why the one they chose was refused */
function useSuggestedPasskeys(isOn: boolean, onDone: (reply: LoginResponse) => void): string | undefined {
  const [refused, refuse] = useState<string>()
  useEffect(() => {
    if (!isOn) return
    const ending = new AbortController()
    const use = async (passkey: PasskeyAssertion) => {
      refuse(undefined)
      const reply = await anonymous.completePasskeySignIn(passkey).catch((error: unknown) => refuse(wordsOf(error)))
      if (reply) onDone(reply)
      return reply !== undefined
    }
    suggestPasskeys(() => anonymous.beginPasskeySignIn(), use, ending.signal).catch(() => {})
    return () => ending.abort()
  }, [isOn])
  return refused
}

/** What a password has to have, before the server says what it lacks. */
const policyIn = (policy: PasswordRequirements): string =>
  [
    t("At least {n} characters", { n: policy.min_length }),
    policy.require_uppercase && t("an upper-case letter"),
    policy.require_lowercase && t("a lower-case letter"),
    policy.require_digit && t("a digit"),
    policy.require_special && t("a special character"),
  ]
    .filter(Boolean)
    .join(", ")

interface RegisterOptions {
  readonly onDone: (reply: LoginResponse) => void
  readonly onVerify: () => void
  readonly onLogin: () => void
}

function Register({ onDone, onVerify, onLogin }: RegisterOptions) {
  const [username, setUsername] = useState("")
  const [email, setEmail] = useState("")
  const [password, setPassword] = useState("")
  const [birthday, setBirthday] = useState("")
  const policy = useResource(() => anonymous.getPasswordRequirements(), [])
  const [isOldEnough, setOldEnough] = useState(false)
  const gate = policy.data?.age_gate_enabled ? policy.data : undefined
  const minAge = gate?.minimum_age ?? 0
  const submit = async () => {
    const age = gate && (gate.age_verification_type === "dob" ? { dob: birthday } : { age_verified: isOldEnough })
    const asked = { username, email, password, ...age }
    try {
      onDone(await anonymous.register(asked))
    } catch (error) {
      // The account is there; its address has to be confirmed first.
      if (error instanceof Error && "status" in error && error.status === 401) return onVerify()
      throw error
    }
  }
  return (
    <>
      <h1>{t("Make an account")}</h1>
      <Form does={t("Make an account")} onSubmit={submit}>
        <TextField
          label={t("Name")}
          value={username}
          onValue={setUsername}
          autocomplete="username"
          autocapitalize="none"
          spellcheck={false}
          required
          minLength={3}
          maxLength={32}
          takesFocus
        />
        <TextField
          label={t("E-mail address")}
          value={email}
          onValue={setEmail}
          autocomplete="email"
          spellcheck={false}
          required
          maxLength={254}
        />
        <TextField
          label={t("Password")}
          type="password"
          hint={policy.data && policyIn(policy.data)}
          value={password}
          onValue={setPassword}
          autocomplete="new-password"
          required
          maxLength={1024}
        />
        {gate?.age_verification_type === "boolean" && (
          <Checkbox
            label={t("I am {n} years old, or older", { n: minAge })}
            value={isOldEnough}
            onValue={setOldEnough}
          />
        )}
        {gate?.age_verification_type === "dob" && (
          <TextField
            label={t("Birthday")}
            type="date"
            hint={t("You have to be {n} years old.", { n: minAge })}
            value={birthday}
            onValue={setBirthday}
            autocomplete="bday"
            required
          />
        )}
      </Form>
      <p class="ways">
        <button type="button" class="quiet" onClick={onLogin}>
          {t("I have an account")}
        </button>
      </p>
    </>
  )
}

function SecondFactor({
  challenge,
  onDone,
  onBack,
}: {
  challenge: LoginResponse
  onDone: (reply: LoginResponse) => void
  onBack: () => void
}) {
  const [code, setCode] = useState("")
  const submit = async () =>
    onDone(await anonymous.completeTwoFactor({ challenge_token: challenge.challenge_token ?? "", code: code.trim() }))
  return (
    <>
      <h1>{t("Second factor")}</h1>
      <Form does={t("Sign in")} onCancel={onBack} onSubmit={submit}>
        <TextField
          label={t("Code")}
          hint={t("The six digits of your authenticator app, or one of your backup codes.")}
          value={code}
          onValue={setCode}
          autocomplete="one-time-code"
          required
          minLength={6}
          maxLength={16}
          takesFocus
        />
      </Form>
      {challenge.methods?.includes("passkey") && hasPasskeys && (
        <PasskeyButton does={t("Use a passkey")} onDone={onDone} token={challenge.challenge_token ?? ""} />
      )}
    </>
  )
}

/** Signs in with a passkey: alone, or with the token of a sign-in that waits for its second factor. */
function PasskeyButton({
  does,
  onDone,
  token,
}: {
  does: string
  onDone: (reply: LoginResponse) => void
  token?: string
}) {
  const [failure, fail] = useState<string>()
  const use = async () => {
    fail(undefined)
    try {
      if (token === undefined) {
        const passkey = await signedWithPasskey(await anonymous.beginPasskeySignIn())
        onDone(await anonymous.completePasskeySignIn(passkey))
      } else {
        const passkey = await signedWithPasskey(await anonymous.beginPasskeyFactor({ challenge_token: token }))
        onDone(await anonymous.completePasskeyFactor({ challenge_token: token, passkey }))
      }
    } catch (error) {
      fail(wordsOf(error))
    }
  }
  return (
    <div class="providers">
      <button type="button" onClick={() => void use()}>
        {does}
      </button>
      {failure && (
        <p class="failure" role="alert">
          {failure}
        </p>
      )}
    </div>
  )
}

function Forgot({ onSent, onBack }: { onSent: () => void; onBack: () => void }) {
  const [email, setEmail] = useState("")
  return (
    <>
      <h1>{t("Another password")}</h1>
      <Form
        does={t("Send me a link")}
        onCancel={onBack}
        onSubmit={async () => {
          await anonymous.requestPasswordReset({ email })
          onSent()
        }}
      >
        <TextField
          label={t("E-mail address")}
          value={email}
          onValue={setEmail}
          autocomplete="email"
          required
          maxLength={254}
          takesFocus
        />
      </Form>
    </>
  )
}

const kept = "starling.app.oauth"
const redirectUri = () => `${location.origin}${base}/app`

/** Signing in through other services, as far as this server has any. */
function Providers({ providers }: { providers: readonly { id: string; name: string }[] }) {
  const [failure, fail] = useState<string>()
  const begin = async (provider: string) => {
    try {
      const { url, state, code_verifier } = await anonymous.beginOAuth({ provider, redirect_uri: redirectUri() })
      sessionStorage.setItem(kept, JSON.stringify({ provider, state, code_verifier }))
      location.assign(url)
    } catch (error) {
      fail(wordsOf(error))
    }
  }
  if (providers.length === 0) return null
  return (
    <div class="providers">
      {providers.map(({ id, name }) => (
        <button key={id} type="button" onClick={() => void begin(id)}>
          {t("Continue with {provider}", { provider: name })}
        </button>
      ))}
      {failure && (
        <p class="failure" role="alert">
          {failure}
        </p>
      )}
    </div>
  )
}

/** A provider has sent the person back here. @returns why they are not signed in */
function useReturn(onDone: (reply: LoginResponse) => void): string | undefined {
  const [failure, fail] = useState<string>()
  useEffect(() => {
    const search = new URLSearchParams(location.search)
    const [code, error] = [search.get("code"), search.get("error")]
    const before = sessionStorage.getItem(kept)
    if ((code ?? error) === null || before === null) return
    sessionStorage.removeItem(kept)
    history.replaceState(null, "", location.pathname + location.hash)
    const { provider, state, code_verifier } = JSON.parse(before) as {
      provider: string
      state: string
      code_verifier: string
    }
    if (state !== search.get("state")) return
    if (code === null) return fail(t("You were not signed in there."))
    anonymous
      .completeOAuth({
        provider,
        code,
        state,
        code_verifier,
        redirect_uri: redirectUri(),
        ...(search.has("iss") && { iss: search.get("iss")! }),
      })
      .then(onDone, (refusal: unknown) => fail(wordsOf(refusal)))
  }, [])
  return failure
}
