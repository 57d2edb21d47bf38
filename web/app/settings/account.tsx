import { useRef, useState } from "preact/hooks"
import { Form, TextField } from "../../kit/forms.tsx"
import { t } from "../../kit/text.ts"
import { attempt, say, sayFailed } from "../../kit/toasts.tsx"
import { avatarOf } from "../names.ts"
import { me, watch } from "../session.ts"

export function Account() {
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
