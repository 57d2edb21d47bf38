import { useState } from "preact/hooks"
import { Form, TextField } from "../../kit/forms.tsx"
import { useResource } from "../../kit/resource.ts"
import { t } from "../../kit/text.ts"
import { attempt, say } from "../../kit/toasts.tsx"
import { avatarOf } from "../names.ts"
import { PictureButton } from "../picture-button.tsx"
import { me, watch } from "../session.ts"

export function Account() {
  const { client, account } = me()
  const { user } = watch("user").state
  const known = account.value
  const [username, setUsername] = useState<string>()
  const [email, setEmail] = useState<string>()
  const [password, setPassword] = useState("")
  const [code, setCode] = useState("")
  const second = useResource(() => client.getTwoFactorStatus(), [])
  const isAnotherAddress = email !== undefined && email !== (known?.email ?? "")
  const save = async () => {
    account.value = await client.editMe({
      ...(username !== undefined && { username }),
      ...(email !== undefined && { email }),
      ...(password && { current_password: password }),
      ...(code.trim() && { code: code.trim() }),
    })
    setPassword("")
    setCode("")
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
          <PictureButton onPick={file => attempt(() => client.putAvatar({ file }), t("Your picture is changed."))} />
          <button
            type="button"
            onClick={() => void attempt(() => client.deleteAvatar(), t("Your picture is removed."))}
          >
            {t("Remove it")}
          </button>
        </p>
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
            {isAnotherAddress && second.data?.enabled && (
              <TextField
                label={t("Code of your second factor")}
                value={code}
                onValue={setCode}
                autocomplete="one-time-code"
                required
              />
            )}
          </Form>
        )}
      </section>
    </>
  )
}
