import { useState } from "preact/hooks"
import type { Snowflake } from "../../client/contract.ts"
import { Dialog } from "../kit/dialog.tsx"
import { Checkbox, Form, Select, TextField } from "../kit/forms.tsx"
import { t } from "../kit/text.ts"
import { me } from "./session.ts"

const maxOptions = 10
const maxQuestionLength = 300
const maxOptionLength = 100

/** As choices of a select: for how many hours. */
const durations = () =>
  [
    ["1", t("1 hour")],
    ["24", t("1 day")],
    ["72", t("3 days")],
    ["168", t("1 week")],
    ["", t("Until I end it")],
  ] as const

export function PollMaker({ channel, onClose }: { channel: Snowflake; onClose: () => void }) {
  const [question, setQuestion] = useState("")
  const [options, setOptions] = useState<readonly string[]>(["", ""])
  const [isMultiple, setMultiple] = useState(false)
  const [hours, setHours] = useState<string>("24")
  // A second try after an answer that was lost makes no second poll.
  const [nonce] = useState(() => crypto.randomUUID())
  const given = options.map(option => option.trim()).filter(option => option !== "")
  const make = async () => {
    const { client, store } = me()
    const poll = {
      question: question.trim(),
      options: given,
      allow_multiple_choice: isMultiple,
      ...(hours !== "" && { duration_hours: Number(hours) }),
    }
    store.put(await client.createMessage({ channel_id: channel, poll, nonce }))
    onClose()
  }
  return (
    <Dialog title={t("Make a poll")} onClose={onClose}>
      <Form does={t("Send")} onSubmit={make} onCancel={onClose} isReady={question.trim() !== "" && given.length >= 2}>
        <TextField
          label={t("Question")}
          value={question}
          onValue={setQuestion}
          required
          maxLength={maxQuestionLength}
        />
        {options.map((option, i) => (
          <TextField
            key={i}
            label={t("Option {n}", { n: i + 1 })}
            value={option}
            onValue={value => setOptions(options.with(i, value))}
            maxLength={maxOptionLength}
          />
        ))}
        {options.length < maxOptions && (
          <p class="buttons start">
            <button type="button" class="small" onClick={() => setOptions([...options, ""])}>
              {t("Another option")}
            </button>
          </p>
        )}
        <Checkbox label={t("Several can be chosen")} value={isMultiple} onValue={setMultiple} />
        <Select label={t("How long")} value={hours} choices={durations()} onValue={setHours} />
      </Form>
    </Dialog>
  )
}
