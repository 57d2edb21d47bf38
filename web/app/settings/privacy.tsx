import { useState } from "preact/hooks"
import { offerFile } from "../../kit/api.ts"
import { Dialog } from "../../kit/dialog.tsx"
import { Checkbox, Form, Select, TextField } from "../../kit/forms.tsx"
import { useResource } from "../../kit/resource.ts"
import { Loaded } from "../../kit/states.tsx"
import { t } from "../../kit/text.ts"
import { attempt } from "../../kit/toasts.tsx"
import { ProofFields, useProof } from "../proof.tsx"
import { me } from "../session.ts"

export function Privacy() {
  const { client } = me()
  const settings = useResource(() => client.getMessagingSettings(), [])
  const edit = (change: Parameters<typeof client.editMessagingSettings>[0]) =>
    void attempt(async () => {
      const changed = await client.editMessagingSettings(change ?? {})
      settings.set(() => changed)
    })
  return (
    <>
      <section class="card">
        <h2>{t("Messages")}</h2>
        <Loaded of={settings}>
          {data => (
            <>
              <Checkbox
                label={t("Others see what I have read")}
                value={data.read_receipts_enabled}
                onValue={on => edit({ read_receipts_enabled: on })}
              />
              <Checkbox
                label={t("Others see that I am typing")}
                value={data.typing_indicators_enabled}
                onValue={on => edit({ typing_indicators_enabled: on })}
              />
              <Select
                label={t("Who may write to me")}
                value={data.allow_dms_from}
                onValue={value => edit({ allow_dms_from: value })}
                choices={[
                  ["everyone", t("Everybody")],
                  ["friends", t("Friends")],
                  ["none", t("Nobody")],
                ]}
              />
            </>
          )}
        </Loaded>
      </section>
      <Export />
      <TheEnd />
    </>
  )
}

function Export() {
  const { client } = me()
  const [isBusy, setBusy] = useState(false)
  const collect = async () => {
    setBusy(true)
    await attempt(async () => {
      await client.requestExport()
      let found = await client.getExport()
      for (let tries = 0; found.status !== "ready" || found.is_another_pending; tries++) {
        if (tries === 60) throw new Error(t("It takes longer. Please come back in a while."))
        await new Promise(resolve => setTimeout(resolve, 2_000))
        found = await client.getExport()
      }
      const parts: unknown[] = []
      for (let part = 1; part <= found.parts; part++) parts.push(await client.getExportPart({ part }))
      const text = JSON.stringify({ export: found, parts }, null, 2)
      offerFile("starling-export.json", new Blob([text], { type: "application/json" }))
    })
    setBusy(false)
  }
  return (
    <section class="card">
      <h2>{t("Your data")}</h2>
      <p>{t("What is stored about you, as a file.")}</p>
      <button type="button" disabled={isBusy} onClick={() => void collect()}>
        {t("Export it")}
      </button>
    </section>
  )
}

function TheEnd() {
  const [isAsking, ask] = useState(false)
  return (
    <>
      <section class="card">
        <h2>{t("The end")}</h2>
        <button type="button" class="danger" onClick={() => ask(true)}>
          {t("Delete my account")}
        </button>
      </section>
      {isAsking && <Deletion onClose={() => ask(false)} />}
    </>
  )
}

/** Who is signed in on a device that was left open does not lose their account there. */
function Deletion({ onClose }: { onClose: () => void }) {
  const { client, account } = me()
  const proof = useProof()
  const [typed, type] = useState("")
  const name = account.value?.username ?? ""
  return (
    <Dialog title={t("Delete your account?")} onClose={onClose}>
      <Form
        does={t("Delete my account")}
        isDangerous
        isReady={typed === name}
        onSubmit={() => client.deleteAccount(proof.given)}
        onCancel={onClose}
        at={{ password: /password/i, code: /code/i }}
      >
        <p>
          {t(
            "It ends now, everywhere, and is erased later. Until then those who run this service can give it back to you.",
          )}
        </p>
        <ProofFields of={proof} />
        <TextField label={t("Type {word} to go on", { word: name })} value={typed} onValue={type} required />
      </Form>
    </Dialog>
  )
}
