import { useState } from "preact/hooks"
import type { PasskeyResponse } from "../../../client/contract.ts"
import { Form, TextField } from "../../kit/forms.tsx"
import { useResource } from "../../kit/resource.ts"
import { Loaded } from "../../kit/states.tsx"
import { t } from "../../kit/text.ts"
import { Time } from "../../kit/time.tsx"
import { say } from "../../kit/toasts.tsx"
import { hasPasskeys, newPasskey } from "../passkeys.ts"
import { me } from "../session.ts"

type Doing = { readonly what: "add" } | { readonly what: "rename" | "remove"; readonly passkey: PasskeyResponse }

/** The passkeys of a person, as far as this server can have any. */
export function Passkeys() {
  const { client } = me()
  const ways = useResource(() => client.getCapabilities(), [])
  const passkeys = useResource(() => client.listPasskeys(), [])
  const [doing, setDoing] = useState<Doing>()
  const done = (words: string) => {
    setDoing(undefined)
    passkeys.reload()
    say(words)
  }
  if (!ways.data?.features.sign_in.passkeys) return null
  return (
    <section class="card">
      <h2>{t("Passkeys")}</h2>
      <p>{t("Your phone, computer or security key in place of a password, and of a code.")}</p>
      <Loaded of={passkeys}>
        {list => (
          <ul class="rows">
            {list.map(passkey => (
              <li key={passkey.id}>
                <span class="long">
                  {passkey.name}{" "}
                  <span class="faint">{passkey.last_used_at === null ? t("never used") : t("last used")}</span>{" "}
                  {passkey.last_used_at !== null && <Time at={passkey.last_used_at} apart />}
                </span>
                <button type="button" class="small" onClick={() => setDoing({ what: "rename", passkey })}>
                  {t("Rename")}
                </button>
                <button type="button" class="small" onClick={() => setDoing({ what: "remove", passkey })}>
                  {t("Remove")}
                </button>
              </li>
            ))}
          </ul>
        )}
      </Loaded>
      {doing === undefined ? (
        hasPasskeys ? (
          <p class="buttons start">
            <button type="button" onClick={() => setDoing({ what: "add" })}>
              {t("Add a passkey")}
            </button>
          </p>
        ) : (
          <p>{t("This browser has no passkeys here.")}</p>
        )
      ) : (
        <Change key={doing.what} doing={doing} onDone={done} onCancel={() => setDoing(undefined)} />
      )}
    </section>
  )
}

interface ChangeOptions {
  readonly doing: Doing
  readonly onDone: (words: string) => void
  readonly onCancel: () => void
}

function Change({ doing, onDone, onCancel }: ChangeOptions) {
  const { client } = me()
  const second = useResource(() => client.getTwoFactorStatus(), [])
  const [name, setName] = useState(doing.what === "rename" ? doing.passkey.name : "")
  const [password, setPassword] = useState("")
  const [code, setCode] = useState("")
  const proof = { ...(password && { password }), ...(code && { code: code.trim() }) }
  const submit = async () => {
    if (doing.what === "add") {
      const passkey = await newPasskey(await client.preparePasskey(proof))
      await client.addPasskey({ name, passkey })
      onDone(t("The passkey is added."))
    } else if (doing.what === "rename") {
      await client.renamePasskey({ passkey_id: doing.passkey.id, name })
      onDone(t("Saved."))
    } else {
      await client.removePasskey({ passkey_id: doing.passkey.id, ...proof })
      onDone(t("The passkey is removed."))
    }
  }
  const does = doing.what === "add" ? t("Add a passkey") : doing.what === "rename" ? t("Save") : t("Remove")
  return (
    <Form does={does} isDangerous={doing.what === "remove"} onCancel={onCancel} onSubmit={submit}>
      {doing.what === "remove" ? (
        <p>{t("{name} no longer signs you in.", { name: doing.passkey.name })}</p>
      ) : (
        <TextField label={t("Name of the passkey")} value={name} onValue={setName} required maxLength={64} takesFocus />
      )}
      {doing.what !== "rename" && (
        <TextField
          label={t("Your password")}
          type="password"
          value={password}
          onValue={setPassword}
          autocomplete="current-password"
        />
      )}
      {doing.what !== "rename" && second.data?.enabled && (
        <TextField label={t("Code")} value={code} onValue={setCode} autocomplete="one-time-code" required />
      )}
    </Form>
  )
}
