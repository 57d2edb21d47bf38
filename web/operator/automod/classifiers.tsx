import { useState } from "preact/hooks"
import type { Setting } from "../../kit/automod/rule-types.ts"
import { SettingsFields, type Faults } from "../../kit/automod/settings.tsx"
import { ask } from "../../kit/dialog.tsx"
import { Form } from "../../kit/forms.tsx"
import { Badge } from "../../kit/states.tsx"
import { t } from "../../kit/text.ts"
import { say } from "../../kit/toasts.tsx"
import { call } from "../client.ts"
import type { AutomodConfig } from "../wire.ts"

const text = (usual: string | null): Setting => ({ kind: "text", usual })
const number = (usual: number): Setting => ({ kind: "number", usual })
/** A key that is stored is shown as stars, and stays when they are sent. */
const key = { api_key: text(null) }

const settings = {
  openai: {
    ...key,
    model: text("omni-moderation-latest"),
    api_url: text("https://api.openai.com/v1/moderations"),
    threshold: number(0.5),
  },
  perspective: {
    ...key,
    api_url: text("https://commentanalyzer.googleapis.com/v1alpha1/comments:analyze"),
    threshold: number(0.7),
    attributes: {
      kind: "list",
      usual: ["TOXICITY", "SEVERE_TOXICITY", "IDENTITY_ATTACK", "INSULT", "PROFANITY", "THREAT"],
    },
  },
  custom: {
    endpoint_url: text(null),
    ...key,
    auth_header: text("Authorization"),
    auth_prefix: text("Bearer"),
    timeout_seconds: number(10),
    threshold: number(0.5),
    headers: { kind: "json", usual: {} },
    request_format: { kind: "json", usual: { content: "{content}" } },
  },
} as const satisfies Record<string, Readonly<Record<string, Setting>>>
type Name = keyof typeof settings
const names: readonly Name[] = ["openai", "perspective", "custom"]

export function Classifiers({
  config,
  onChange,
}: {
  config: AutomodConfig
  onChange: (config: AutomodConfig) => void
}) {
  return (
    <div class="columns">
      {names.map(name => (
        <Classifier key={name} name={name} stored={config.ai[name]} onChange={onChange} />
      ))}
    </div>
  )
}

interface ClassifierOptions {
  readonly name: Name
  readonly stored: Record<string, unknown> | undefined
  readonly onChange: (config: AutomodConfig) => void
}

const usual = (name: Name): Record<string, unknown> =>
  Object.fromEntries(Object.entries(settings[name]).map(([setting, { usual }]) => [setting, usual]))

function Classifier({ name, stored, onChange }: ClassifierOptions) {
  const [draft, setDraft] = useState<Record<string, unknown>>(stored ?? usual(name))
  const [faults, setFaults] = useState<Faults>(new Set())
  const [round, setRound] = useState(0)
  const put = async (value: Record<string, unknown> | null) => {
    const config = await call("PUT /automod/config", { body: { ai: { [name]: value } } })
    setDraft(config.ai[name] ?? usual(name))
    setRound(round + 1)
    onChange(config)
  }
  const remove = () =>
    ask({
      title: t("Remove {name}?", { name }),
      will: (
        <p>
          {t(
            "Its settings and its key are deleted, and rules that use it do nothing. It cannot be undone: the key is shown nowhere.",
          )}
        </p>
      ),
      does: t("Remove"),
      isDangerous: true,
      work: async () => {
        await put(null)
        say(t("{name} is removed.", { name }))
      },
    })
  return (
    <section class="card" aria-labelledby={`ai-${name}`}>
      <h3 id={`ai-${name}`}>
        {name} {stored ? <Badge tone="good">{t("set up")}</Badge> : <Badge>{t("not set up")}</Badge>}
      </h3>
      <Form
        does={t("Save")}
        isReady={faults.size === 0}
        onSubmit={async () => {
          await put(draft)
          say(t("{name} is set up.", { name }))
        }}
      >
        <SettingsFields
          key={round}
          of={settings[name]}
          values={draft}
          onValue={(setting, value) => setDraft(before => ({ ...before, [setting]: value }))}
          onFaults={setFaults}
        />
      </Form>
      {stored && (
        <p class="buttons start">
          <button type="button" class="danger" onClick={remove}>
            {t("Remove …")}
          </button>
        </p>
      )}
    </section>
  )
}
