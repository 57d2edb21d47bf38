import { useState } from "preact/hooks"
import { Checkbox, Select, TextArea, TextField } from "../forms.tsx"
import { t } from "../text.ts"
import { choiceWords, newPattern, severities, wordsFor, type Pattern, type Setting } from "./rule-types.ts"

export function NumberField({
  label,
  value,
  onValue,
}: {
  label: string
  value: number | null
  onValue: (value: number | null) => void
}) {
  return (
    <TextField
      label={label}
      type="number"
      step="any"
      value={value === null ? "" : String(value)}
      onValue={text => onValue(text === "" ? null : Number(text))}
    />
  )
}

/** The settings that are written and not yet right. */
export type Faults = ReadonlySet<string>

interface SettingsOptions {
  readonly of: Readonly<Record<string, Setting>>
  readonly values: Readonly<Record<string, unknown>>
  readonly onValue: (name: string, value: unknown) => void
  readonly onFaults: (change: (before: Faults) => Faults) => void
}

/** A field for each setting. */
export function SettingsFields({ of, values, onValue, onFaults }: SettingsOptions) {
  return (
    <>
      {Object.entries(of).map(([name, setting]) => (
        <SettingField
          key={name}
          name={name}
          setting={setting}
          value={values[name] ?? setting.usual}
          onValue={value => onValue(name, value)}
          onFault={isWrong =>
            onFaults(before => {
              const after = new Set(before)
              if (isWrong) after.add(name)
              else after.delete(name)
              return after
            })
          }
        />
      ))}
    </>
  )
}

interface SettingOptions {
  readonly name: string
  readonly setting: Setting
  readonly value: unknown
  readonly onValue: (value: unknown) => void
  readonly onFault: (isWrong: boolean) => void
}

function SettingField({ name, setting, value, onValue, onFault }: SettingOptions) {
  const label = wordsFor(name)
  switch (setting.kind) {
    case "number":
      return <NumberField label={label} value={value as number | null} onValue={onValue} />
    case "boolean":
      return <Checkbox label={label} value={value === true} onValue={onValue} />
    case "text":
      return <TextField label={label} value={(value as string | null) ?? ""} onValue={text => onValue(text || null)} />
    case "choice":
      return (
        <Select
          label={label}
          value={String(value)}
          choices={setting.of.map(one => [one, choiceWords(name, one)] as const)}
          onValue={onValue}
        />
      )
    case "list":
      return <LinesField label={label} value={value as string[]} onValue={onValue} />
    case "patterns":
      return <PatternsField label={label} value={value as Pattern[]} onValue={onValue} />
    case "json":
      return <JsonField label={label} value={value} onValue={onValue} onFault={onFault} />
  }
}

function LinesField({ label, value, onValue }: { label: string; value: string[]; onValue: (value: string[]) => void }) {
  const [text, setText] = useState(value.join("\n"))
  return (
    <TextArea
      label={label}
      hint={t("One on each line.")}
      value={text}
      onValue={text => {
        setText(text)
        onValue(
          text
            .split("\n")
            .map(line => line.trim())
            .filter(Boolean),
        )
      }}
    />
  )
}

/** The server says which expression it does not take. */
function PatternsField({
  label,
  value,
  onValue,
}: {
  label: string
  value: readonly Pattern[]
  onValue: (value: Pattern[]) => void
}) {
  const set = (i: number, change: Partial<Pattern>) =>
    onValue(value.map((one, n) => (n === i ? { ...one, ...change } : one)))
  return (
    <fieldset>
      <legend>{label}</legend>
      {value.map((one, i) => (
        <div key={i} class="bar">
          <TextField
            label={t("Expression {n}", { n: i + 1 })}
            value={one.pattern}
            onValue={pattern => set(i, { pattern })}
            spellcheck={false}
            required
            maxLength={500}
          />
          <TextField label={t("Called")} value={one.name} onValue={name => set(i, { name })} maxLength={100} />
          <Select
            label={wordsFor("severity")}
            value={one.severity}
            choices={severities.map(each => [each, choiceWords("severity", each)] as const)}
            onValue={severity => set(i, { severity })}
          />
          <Checkbox
            label={wordsFor("case_sensitive")}
            value={one.case_sensitive}
            onValue={on => set(i, { case_sensitive: on })}
          />
          <Checkbox label={t("By lines")} value={one.multiline} onValue={multiline => set(i, { multiline })} />
          {value.length > 1 && (
            <button
              type="button"
              class="small"
              aria-label={t("Take expression {n} out", { n: i + 1 })}
              onClick={() => onValue(value.filter((_, n) => n !== i))}
            >
              {t("Take it out")}
            </button>
          )}
        </div>
      ))}
      <p class="buttons start">
        <button type="button" class="small" onClick={() => onValue([...value, newPattern])}>
          {t("One more")}
        </button>
      </p>
    </fieldset>
  )
}

function JsonField({
  label,
  value,
  onValue,
  onFault,
}: {
  label: string
  value: unknown
  onValue: (value: unknown) => void
  onFault: (isWrong: boolean) => void
}) {
  const [text, setText] = useState(JSON.stringify(value, null, 2))
  const [fault, setFault] = useState<string>()
  const write = (text: string) => {
    setText(text)
    try {
      onValue(JSON.parse(text))
      setFault(undefined)
      onFault(false)
    } catch {
      setFault(t("This is no JSON yet."))
      onFault(true)
    }
  }
  return (
    <>
      <TextArea label={`${label} (JSON)`} class="code" rows={6} spellcheck={false} value={text} onValue={write} />
      {fault && (
        <p class="failure" role="alert">
          {fault}
        </p>
      )}
    </>
  )
}
