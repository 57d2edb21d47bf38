import { useState } from "preact/hooks"
import type { PresenceResponse } from "../../client/contract.ts"
import { Dialog } from "../kit/dialog.tsx"
import { Form, Select, TextField } from "../kit/forms.tsx"
import { useResource } from "../kit/resource.ts"
import { Loaded } from "../kit/states.tsx"
import { t } from "../kit/text.ts"
import { me, ownId } from "./session.ts"

const maxStatusLength = 128

/** What others see of one. */
export function OwnStatus({ onClose }: { onClose: () => void }) {
  const found = useResource(() => me().client.getPresence({ user_id: ownId() }), [])
  return (
    <Dialog title={t("Your status")} onClose={onClose}>
      <Loaded of={found}>{now => <Choice now={now} onClose={onClose} />}</Loaded>
    </Dialog>
  )
}

function Choice({ now, onClose }: { now: PresenceResponse; onClose: () => void }) {
  const isHidden = now.status === "invisible" || now.status === "offline"
  const [status, setStatus] = useState<"online" | "dnd" | "invisible">(
    now.status === "dnd" ? "dnd" : isHidden ? "invisible" : "online",
  )
  const [text, setText] = useState(now.custom_status ?? "")
  const save = async () => {
    const custom_status = text.trim()
    // An emoji that another client has set goes along with its text.
    await me().client.updatePresence({ status, custom_status, ...(custom_status === "" && { custom_emoji: "" }) })
    onClose()
  }
  return (
    <Form does={t("Save")} onSubmit={save} onCancel={onClose}>
      <Select
        label={t("Others see you as")}
        value={status}
        onValue={setStatus}
        choices={[
          ["online", t("online")],
          ["dnd", t("do not disturb")],
          ["invisible", t("offline, although you are here")],
        ]}
      />
      <TextField label={t("What you are up to")} value={text} onValue={setText} maxLength={maxStatusLength} />
    </Form>
  )
}
