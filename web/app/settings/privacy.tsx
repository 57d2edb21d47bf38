import { useState } from "preact/hooks"
import { offerFile } from "../../kit/api.ts"
import { ask } from "../../kit/dialog.tsx"
import { Checkbox, Select } from "../../kit/forms.tsx"
import { useResource } from "../../kit/resource.ts"
import { Loaded } from "../../kit/states.tsx"
import { t } from "../../kit/text.ts"
import { attempt } from "../../kit/toasts.tsx"
import { me } from "../session.ts"

export function Privacy() {
  const { client, account } = me()
  const settings = useResource(() => client.getMessagingSettings(), [])
  const edit = (change: Parameters<typeof client.editMessagingSettings>[0]) =>
    void attempt(async () => {
      const changed = await client.editMessagingSettings(change ?? {})
      settings.set(() => changed)
    })
  const remove = () =>
    ask({
      title: t("Delete your account?"),
      will: <p>{t("It is frozen now, and erased later. You can sign in until then to keep it.")}</p>,
      does: t("Delete my account"),
      typed: account.value?.username ?? "",
      isDangerous: true,
      work: () => client.deleteAccount(),
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
      <section class="card">
        <h2>{t("The end")}</h2>
        <button type="button" class="danger" onClick={remove}>
          {t("Delete my account")}
        </button>
      </section>
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
