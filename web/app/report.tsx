import { useState } from "preact/hooks"
import type { MessageReportInput } from "../../client/contract.ts"
import { Dialog } from "../kit/dialog.tsx"
import { Form, Select, TextArea } from "../kit/forms.tsx"
import { t } from "../kit/text.ts"
import { say } from "../kit/toasts.tsx"

type Category = NonNullable<MessageReportInput["category"]>

const categories = (): readonly (readonly [Category, string])[] => [
  ["harassment", t("Harassment")],
  ["spam", t("Spam")],
  ["inappropriate", t("Inappropriate")],
  ["illegal", t("Illegal")],
  ["hate_speech", t("Hate")],
  ["threats", t("Threats")],
  ["impersonation", t("Pretends to be somebody else")],
  ["other", t("Something else")],
]

export interface Given {
  readonly category: Category
  readonly reason: string
}

interface ReportOptions {
  readonly title: string
  readonly send: (given: Given) => Promise<unknown>
  readonly onClose: () => void
}

/** Tells the operators of something that breaks the rules. */
export function Report({ title, send, onClose }: ReportOptions) {
  const [category, setCategory] = useState<Category>("other")
  const [reason, setReason] = useState("")
  const submit = async () => {
    await send({ category, reason: reason.trim() })
    say(t("The operators will look at it."))
    onClose()
  }
  return (
    <Dialog title={title} onClose={onClose}>
      <Form does={t("Report")} onSubmit={submit} onCancel={onClose} isReady={reason.trim() !== ""}>
        <Select label={t("What it is about")} value={category} choices={categories()} onValue={setCategory} />
        <TextArea
          label={t("Reason")}
          hint={t("The operators of this service read it, not the members.")}
          value={reason}
          onValue={setReason}
          maxLength={500}
          required
        />
      </Form>
    </Dialog>
  )
}
