import type { ComponentChildren } from "preact"
import { useState } from "preact/hooks"
import { Dialog } from "../dialog.tsx"
import { Checkbox, Form, Select, TextArea, TextField } from "../forms.tsx"
import { Badge } from "../states.tsx"
import { t } from "../text.ts"
import { say } from "../toasts.tsx"
import { actions, kindChoices, kinds, titleOf, usualConfig } from "./rule-types.ts"
import type { ActionType, RuleAction, RuleDraft, RuleType, TestResult } from "./rules.ts"
import { NumberField, SettingsFields, type Faults } from "./settings.tsx"

const startsAs = (kind: RuleType): RuleDraft => ({
  name: "",
  rule_type: kind,
  config: usualConfig(kind),
  actions: [{ action_type: "delete_message", reason: null, notify_user: true }],
  priority: 0,
  check_all: false,
  enabled: true,
})

interface EditorOptions {
  /** Absent: it is a new one. */
  readonly rule?: RuleDraft | undefined
  readonly onSave: (draft: RuleDraft) => Promise<unknown>
  /** Says what the draft would do with a text; absent: that cannot be asked. */
  readonly onTest?: (draft: RuleDraft, text: string) => Promise<TestResult>
  /** Whom and where it is for. */
  readonly reach?: (draft: RuleDraft, set: (change: Partial<RuleDraft>) => void) => ComponentChildren
  readonly onClose: () => void
}

export function RuleEditor({ rule, onSave, onTest, reach, onClose }: EditorOptions) {
  const [draft, setDraft] = useState<RuleDraft>(rule ?? startsAs("keyword"))
  /** JSON that is written and not yet right. */
  const [faults, setFaults] = useState<Faults>(new Set())
  const set = (change: Partial<RuleDraft>) => setDraft(before => ({ ...before, ...change }))
  const setConfig = (name: string, value: unknown) =>
    setDraft(one => ({ ...one, config: { ...one.config, [name]: value } }))
  const kind = kinds()[draft.rule_type]
  const save = async () => {
    await onSave(draft)
    say(t("The rule {name} is saved, and in force.", { name: draft.name }))
    onClose()
  }
  return (
    <Dialog title={rule ? t("Edit the rule") : t("A new rule")} onClose={onClose} wide>
      <Form does={t("Save")} onCancel={onClose} isReady={faults.size === 0} onSubmit={save}>
        <div class="bar">
          <TextField
            label={t("Name")}
            value={draft.name}
            onValue={name => set({ name })}
            required
            maxLength={100}
            takesFocus
          />
          {!rule && (
            <Select
              label={t("Kind")}
              value={draft.rule_type}
              choices={kindChoices()}
              onValue={rule_type => {
                setFaults(new Set())
                set({ rule_type, config: usualConfig(rule_type) })
              }}
            />
          )}
          <NumberField
            label={t("Priority")}
            value={draft.priority ?? 0}
            onValue={priority => set({ priority: priority ?? 0 })}
          />
        </div>
        <p class="faint">{kind.about}</p>
        <fieldset>
          <legend>{t("Settings")}</legend>
          <SettingsFields
            key={draft.rule_type}
            of={kind.settings}
            values={draft.config}
            onValue={setConfig}
            onFaults={setFaults}
          />
        </fieldset>
        {reach?.(draft, set)}
        <Actions of={draft.actions} onValue={actions => set({ actions })} />
        <Checkbox label={t("In force")} value={draft.enabled ?? true} onValue={enabled => set({ enabled })} />
        <Checkbox
          label={t("Check the rules after it, too, when a message breaks it")}
          value={draft.check_all ?? false}
          onValue={check_all => set({ check_all })}
        />
        {onTest && <TestBox draft={draft} onTest={onTest} />}
      </Form>
    </Dialog>
  )
}

function Actions({ of, onValue }: { of: readonly RuleAction[]; onValue: (actions: RuleAction[]) => void }) {
  const has = (type: ActionType) => of.find(({ action_type }) => action_type === type)
  const change = (type: ActionType, change: Partial<RuleAction>) =>
    onValue(of.map(action => (action.action_type === type ? { ...action, ...change } : action)))
  const refusal = of[0]
  return (
    <fieldset>
      <legend>{t("Then")}</legend>
      {actions().map(([type, title]) => (
        <div key={type}>
          <Checkbox
            label={title}
            value={has(type) !== undefined}
            onValue={on =>
              onValue(
                on
                  ? [...of, { action_type: type, reason: refusal?.reason ?? null, notify_user: true }]
                  : of.filter(({ action_type }) => action_type !== type),
              )
            }
          />
          {type === "timeout_user" && has(type) && (
            <NumberField
              label={t("Seconds of the time-out")}
              value={has(type)?.duration_seconds ?? 300}
              onValue={seconds => change(type, { duration_seconds: seconds })}
            />
          )}
        </div>
      ))}
      <TextField
        label={t("Reason")}
        hint={t("For the audit log; the author sees it, too.")}
        value={refusal?.reason ?? ""}
        onValue={text => onValue(of.map(action => ({ ...action, reason: text || null })))}
        maxLength={500}
      />
    </fieldset>
  )
}

/** What the rule would do, as it stands here; nothing is stored. */
function TestBox({
  draft,
  onTest,
}: {
  draft: RuleDraft
  onTest: (draft: RuleDraft, text: string) => Promise<TestResult>
}) {
  const [text, setText] = useState("")
  const [result, setResult] = useState<TestResult>()
  const [failure, fail] = useState<string>()
  const test = async () => {
    try {
      setResult(await onTest(draft, text))
      fail(undefined)
    } catch (error) {
      setResult(undefined)
      fail(error instanceof Error ? error.message : String(error))
    }
  }
  return (
    <fieldset>
      <legend>{t("Try it")}</legend>
      <TextArea label={t("A message")} value={text} onValue={setText} maxLength={4_000} />
      <p class="buttons start">
        <button type="button" disabled={text === ""} onClick={() => void test()}>
          {t("Test")}
        </button>
        <output aria-live="polite">
          {failure}
          {result && <Verdict of={result} />}
        </output>
      </p>
    </fieldset>
  )
}

function Verdict({ of: result }: { of: TestResult }) {
  if (result.unjudged !== null)
    return (
      <>
        <Badge tone="warm">{t("no verdict")}</Badge>{" "}
        {t("It would pass: {why}.", { why: result.unjudged.replaceAll("_", " ") })}
      </>
    )
  const scores = Object.entries(result.scores ?? {})
  return (
    <>
      {result.is_broken ? <Badge tone="bad">{t("breaks the rule")}</Badge> : <Badge tone="good">{t("passes")}</Badge>}{" "}
      {result.matched_content !== null && <q>{result.matched_content}</q>}{" "}
      {result.is_broken &&
        t("Severity {severity}, {points} points: {actions}.", {
          severity: result.severity ?? "–",
          points: result.points,
          actions: result.actions.map(({ action_type }) => titleOf(action_type)).join(", "),
        })}
      {scores.length > 0 && (
        <span class="faint"> {scores.map(([name, score]) => `${name} ${score.toFixed(2)}`).join(", ")}</span>
      )}
    </>
  )
}
