import { useState } from "preact/hooks"
import { Form, TextField } from "../../kit/forms.tsx"
import { t } from "../../kit/text.ts"
import { attempt, say } from "../../kit/toasts.tsx"
import { avatarOf } from "../names.ts"
import { PictureButton } from "../picture-button.tsx"
import { ProofFields, useProof } from "../proof.tsx"
import { me, watch } from "../session.ts"

export function Account() {
  const { client, account } = me()
  const { user } = watch("user").state
  const known = account.value
  const [username, setUsername] = useState<string>()
  const [email, setEmail] = useState<string>()
  const proof = useProof()
  const isAnotherAddress = email !== undefined && email !== (known?.email ?? "")
  const save = async () => {
    const { password: current_password, code } = proof.given
    account.value = await client.editMe({
      ...(username !== undefined && { username }),
      ...(email !== undefined && { email }),
      ...(current_password !== undefined && { current_password }),
      ...(code !== undefined && { code }),
    })
    proof.forget()
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
            <ProofFields
              of={proof}
              hint={t("It is asked for when the address changes.")}
              takesCode={isAnotherAddress}
            />
          </Form>
        )}
      </section>
    </>
  )
}
