import { createContext, type ComponentChildren } from "preact"
import { useContext, useEffect, useId, useRef, useState } from "preact/hooks"
import { isAborted, saidOf, wordsOf } from "./api.ts"
import { t } from "./text.ts"

interface Labelled {
  readonly label: string
  readonly hint?: ComponentChildren
  /** As the form's `at` calls the field; what the server objects to in it is said beside it. */
  readonly name?: string
}

/** What the server objects to, and in which field of the form. */
interface Fault {
  readonly field: string | undefined
  readonly words: string
}
const FormFault = createContext<Fault | undefined>(undefined)

interface ControlProps {
  readonly id: string
  readonly "aria-describedby"?: string
  readonly "aria-invalid"?: true
}

/** A label, what is entered, and what is to be known of it. `control` gets the attributes to use. */
export function Field({
  label,
  hint,
  name,
  control,
}: Labelled & { control: (attributes: ControlProps) => ComponentChildren }) {
  const id = useId()
  const fault = useContext(FormFault)
  const isWrong = name !== undefined && fault?.field === name
  const described = [hint !== undefined && `${id}-hint`, isWrong && `${id}-fault`].filter(Boolean).join(" ")
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {control({
        id,
        ...(described !== "" && { "aria-describedby": described }),
        ...(isWrong && { "aria-invalid": true }),
      })}
      {isWrong && (
        <p class="failure" role="alert" id={`${id}-fault`}>
          {fault.words}
        </p>
      )}
      {hint !== undefined && (
        <p class="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
    </div>
  )
}

interface Input {
  readonly type?: "text" | "search" | "password" | "number" | "date" | "datetime-local" | "color"
  readonly autocomplete?: string
  readonly autocapitalize?: string
  readonly inputMode?: "text" | "numeric"
  readonly spellcheck?: boolean
  readonly required?: boolean
  readonly pattern?: string
  readonly minLength?: number
  readonly maxLength?: number
  readonly min?: number
  readonly max?: number
  readonly step?: "any"
}

/** `takesFocus`: as soon as it is shown. */
export function TextField({
  label,
  hint,
  name,
  value,
  onValue,
  takesFocus = false,
  ...rest
}: Labelled & Input & { value: string; onValue: (value: string) => void; takesFocus?: boolean }) {
  const input = useRef<HTMLInputElement>(null)
  useEffect(() => {
    if (takesFocus) input.current?.focus()
  }, [])
  return (
    <Field
      label={label}
      hint={hint}
      {...(name !== undefined && { name })}
      control={ids => (
        <input
          autocomplete="off"
          dir={rest.type === undefined ? "auto" : undefined}
          {...(rest as {})}
          {...ids}
          ref={input}
          value={value}
          onInput={event => onValue(event.currentTarget.value)}
        />
      )}
    />
  )
}

export function TextArea({
  label,
  hint,
  name,
  value,
  onValue,
  ...rest
}: Labelled &
  Pick<Input, "maxLength" | "required" | "spellcheck"> & {
    value: string
    onValue: (value: string) => void
    rows?: number
    class?: string
  }) {
  return (
    <Field
      label={label}
      hint={hint}
      {...(name !== undefined && { name })}
      control={ids => (
        <textarea
          rows={3}
          dir="auto"
          {...rest}
          {...ids}
          value={value}
          onInput={event => onValue(event.currentTarget.value)}
        />
      )}
    />
  )
}

export type Choices<V extends string> = readonly (readonly [value: V, label: string])[]

export function Select<V extends string>({
  label,
  hint,
  name,
  value,
  choices,
  onValue,
}: Labelled & { value: V; choices: Choices<V>; onValue: (value: V) => void }) {
  return (
    <Field
      label={label}
      hint={hint}
      {...(name !== undefined && { name })}
      control={ids => (
        <select {...ids} value={value} onChange={event => onValue(event.currentTarget.value as V)}>
          {choices.map(([value, label]) => (
            <option key={value} value={value}>
              {label}
            </option>
          ))}
        </select>
      )}
    />
  )
}

export function Checkbox({
  label,
  hint,
  value,
  isDisabled = false,
  onValue,
}: Labelled & { value: boolean; isDisabled?: boolean; onValue: (value: boolean) => void }) {
  const id = useId()
  return (
    <div class="field check">
      <input
        id={id}
        type="checkbox"
        checked={value}
        disabled={isDisabled}
        aria-describedby={hint === undefined ? undefined : `${id}-hint`}
        onChange={event => onValue(event.currentTarget.checked)}
      />
      <label for={id}>{label}</label>
      {hint !== undefined && (
        <p class="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
    </div>
  )
}

/** One file, chosen from those of the machine. */
export function FileField({
  label,
  hint,
  name,
  accept,
  value,
  onValue,
}: Labelled & { accept: string; value: File | undefined; onValue: (file: File | undefined) => void }) {
  const input = useRef<HTMLInputElement>(null)
  // A form that was sent begins anew.
  useEffect(() => {
    if (value === undefined && input.current) input.current.value = ""
  }, [value])
  return (
    <Field
      label={label}
      hint={hint}
      {...(name !== undefined && { name })}
      control={ids => (
        <input
          {...ids}
          ref={input}
          type="file"
          accept={accept}
          onChange={event => onValue(event.currentTarget.files?.[0])}
        />
      )}
    />
  )
}

interface FormOptions {
  readonly children: ComponentChildren
  /** What the button says. */
  readonly does: string
  readonly onSubmit: () => Promise<unknown>
  readonly isDangerous?: boolean
  readonly isReady?: boolean
  readonly onCancel?: (() => void) | undefined
  readonly inline?: boolean
  /** What the server says when it objects to a field, by the name of the field: it is shown there. */
  readonly at?: Readonly<Record<string, RegExp>>
}

/** Sends what was entered, once; what the server objects to is said, and read aloud. */
export function Form(options: FormOptions) {
  const { children, does, onSubmit, isDangerous, isReady = true, onCancel, inline = false, at = {} } = options
  const [fault, fail] = useState<Fault>()
  const [isBusy, setBusy] = useState(false)
  const submit = async (event: Event) => {
    event.preventDefault()
    if (isBusy) return
    setBusy(true)
    fail(undefined)
    try {
      await onSubmit()
    } catch (error) {
      const field = Object.keys(at).find(name => at[name]!.test(saidOf(error)))
      if (!isAborted(error)) fail({ words: wordsOf(error), field })
    }
    setBusy(false)
  }
  return (
    <form class={inline ? "inline" : undefined} onSubmit={event => void submit(event)}>
      <FormFault.Provider value={fault}>{children}</FormFault.Provider>
      {fault && fault.field === undefined && (
        <p role="alert" class="failure">
          {fault.words}
        </p>
      )}
      <p class="buttons">
        {onCancel && (
          <button type="button" onClick={onCancel}>
            {t("Cancel")}
          </button>
        )}
        <button type="submit" class={isDangerous ? "danger" : "strong"} disabled={isBusy || !isReady}>
          {does}
        </button>
      </p>
    </form>
  )
}

/** One of a few, shown side by side. */
export function Tabs<V extends string>({
  label,
  value,
  choices,
  onValue,
}: {
  label: string
  value: V
  choices: readonly (readonly [value: V, label: string, count?: number | undefined])[]
  onValue: (value: V) => void
}) {
  return (
    <div class="tabs" role="group" aria-label={label}>
      {choices.map(([one, words, count]) => (
        <button key={one} type="button" aria-pressed={one === value} onClick={() => onValue(one)}>
          {words}
          {count !== undefined && <span class="count">{count > 9_999 ? "9,999+" : count}</span>}
        </button>
      ))}
    </div>
  )
}

/** A text to hand on, such as a secret that is shown once. */
export function CopyButton({ text, label = t("Copy") }: { text: string; label?: string }) {
  const [isDone, setDone] = useState(false)
  const copy = async () => {
    await copyText(text)
    setDone(true)
    setTimeout(() => setDone(false), 2_000)
  }
  return (
    <button type="button" onClick={() => void copy().catch(() => setDone(false))}>
      <span aria-live="polite">{isDone ? t("Copied") : label}</span>
    </button>
  )
}

/** Browsers have the clipboard only where the connection is secure; the older way works elsewhere. */
async function copyText(text: string): Promise<void> {
  if (window.isSecureContext) return navigator.clipboard.writeText(text)
  const area = document.createElement("textarea")
  area.value = text
  // Within the dialog that is open, as what is outside of it cannot be selected.
  ;(document.querySelector("dialog[open]") ?? document.body).append(area)
  area.select()
  const isDone = document.execCommand("copy")
  area.remove()
  if (!isDone) throw new Error("not copied")
}
