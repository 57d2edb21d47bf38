import { useState } from "preact/hooks"
import { TextField } from "../kit/forms.tsx"
import { useResource } from "../kit/resource.ts"
import { t } from "../kit/text.ts"
import { me } from "./session.ts"

/** What shows that it is oneself who decides, on a device that was left open, say. */
export function useProof() {
  const [password, setPassword] = useState("")
  const [code, setCode] = useState("")
  return {
    password,
    setPassword,
    code,
    setCode,
    /** What a request takes: what is empty is left out. */
    given: { ...(password !== "" && { password }), ...(code.trim() !== "" && { code: code.trim() }) },
    forget() {
      setPassword("")
      setCode("")
    },
  }
}

interface ProofOptions {
  readonly of: ReturnType<typeof useProof>
  readonly hint?: string
  /** Whether who has a second factor is asked for its code. */
  readonly takesCode?: boolean
}

/** The names of its fields are `password` and `code`. */
export function ProofFields({
  of: { password, setPassword, code, setCode },
  hint = t("Empty if you sign in through a provider."),
  takesCode = true,
}: ProofOptions) {
  const second = useResource(() => me().client.getTwoFactorStatus(), [])
  return (
    <>
      <TextField
        name="password"
        label={t("Your password")}
        hint={hint}
        type="password"
        value={password}
        onValue={setPassword}
        autocomplete="current-password"
      />
      {takesCode && second.data?.enabled && (
        <TextField
          name="code"
          label={t("Code of your second factor")}
          value={code}
          onValue={setCode}
          autocomplete="one-time-code"
          required
        />
      )}
    </>
  )
}
