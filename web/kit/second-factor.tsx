import { useState } from "preact/hooks"
import { offerFile } from "./api.ts"
import { Checkbox, CopyButton, TextField } from "./forms.tsx"
import { QrCode } from "./qr.tsx"
import { t } from "./text.ts"

export function SecretToScan({ uri, secret }: { uri: string; secret: string }) {
  return (
    <div class="secret">
      <QrCode text={uri} says={t("A code to scan with an authenticator app")} />
      <p>
        {t("Without a camera, enter this key:")}
        <br />
        <code>{secret.match(/.{1,4}/g)?.join(" ")}</code> <CopyButton text={secret} />
      </p>
    </div>
  )
}

/** For the digits of an app whose secret has just been scanned: no backup code will do. */
export function AppCodeField(field: { label: string; value: string; onValue: (value: string) => void }) {
  return (
    <TextField
      {...field}
      autocomplete="one-time-code"
      inputMode="numeric"
      required
      minLength={6}
      maxLength={8}
      takesFocus
    />
  )
}

/** They are shown once; the server keeps only their hashes. */
export function BackupCodes({ codes, onDone }: { codes: readonly string[]; onDone: () => void }) {
  const [isKept, setKept] = useState(false)
  const text = `${codes.join("\n")}\n`
  return (
    <section aria-labelledby="codes">
      <h1 id="codes">{t("Your backup codes")}</h1>
      <p>
        {t(
          "Each signs you in once when your authenticator is not at hand. Keep them somewhere safe: they are not shown again.",
        )}
      </p>
      <ol class="codes">
        {codes.map(code => (
          <li key={code}>
            <code>{code}</code>
          </li>
        ))}
      </ol>
      <p class="buttons start">
        <CopyButton text={text} label={t("Copy all")} />
        <button type="button" onClick={() => offerFile("backup-codes.txt", new Blob([text], { type: "text/plain" }))}>
          {t("Download")}
        </button>
      </p>
      <Checkbox label={t("I have kept them")} value={isKept} onValue={setKept} />
      <p class="buttons">
        <button type="button" class="strong" disabled={!isKept} onClick={onDone}>
          {t("Continue")}
        </button>
      </p>
    </section>
  )
}
