import { useState } from "preact/hooks"
import type { AutomodRuleResponse } from "../../../client/contract.ts"
import type { KnownServer } from "../../../client/state.ts"
import { RuleEditor } from "../../kit/automod/rule-editor.tsx"
import { choiceWords, kinds, titleOf } from "../../kit/automod/rule-types.ts"
import type { RuleDraft } from "../../kit/automod/rules.ts"
import { ask } from "../../kit/dialog.tsx"
import { usePages, useResource } from "../../kit/resource.ts"
import { Empty, Failed, Loaded } from "../../kit/states.tsx"
import { count, t } from "../../kit/text.ts"
import { Time } from "../../kit/time.tsx"
import { attempt } from "../../kit/toasts.tsx"
import { nameIn } from "../names.ts"
import { me } from "../session.ts"
import { useServer, type PartOptions } from "./shared.tsx"

export function Automod({ server }: PartOptions) {
  const known = useServer(server)
  if (!known) return <p class="loading">{t("Loading …")}</p>
  return (
    <>
      <Rules known={known} />
      <Violations known={known} />
    </>
  )
}

/** No event tells of rules: others may change one while the page is open. */
const rulesEveryMs = 15_000

function Rules({ known }: { known: KnownServer }) {
  const { client } = me()
  const { id: server } = known.facts
  const rules = useResource(() => client.listAutomodRules({ server_id: server }), [server], { everyMs: rulesEveryMs })
  const [editing, edit] = useState<AutomodRuleResponse | "new">()
  const save = async (edited: AutomodRuleResponse | "new", { rule_type, ...draft }: RuleDraft) => {
    const { name, config, actions, priority, check_all, enabled } = draft
    const { applied_roles, exempt_roles, exempt_channels } = draft
    const rule = { name, config, actions, priority, check_all, enabled, applied_roles, exempt_roles, exempt_channels }
    if (edited === "new") await client.createAutomodRule({ server_id: server, rule_type, ...rule })
    else await client.editAutomodRule({ server_id: server, rule_id: edited.id, ...rule })
    rules.reload()
  }
  const change = (rule: AutomodRuleResponse, enabled: boolean) =>
    void attempt(() => client.editAutomodRule({ server_id: server, rule_id: rule.id, enabled })).then(rules.reload)
  const remove = (rule: AutomodRuleResponse) =>
    ask({
      title: t("Delete {name}?", { name: rule.name }),
      will: <p>{t("Messages are not checked against it any more; what it recorded stays.")}</p>,
      does: t("Delete"),
      isDangerous: true,
      work: async () => {
        await client.deleteAutomodRule({ server_id: server, rule_id: rule.id })
        rules.reload()
      },
    })
  return (
    <section class="card">
      <h2>{t("Auto-moderation")}</h2>
      <p class="hint">
        {t(
          "Every message is checked when it is sent and when it is edited, but for those of the owner and administrators.",
        )}
      </p>
      <p class="buttons start">
        <button type="button" class="strong" onClick={() => edit("new")}>
          {t("Make a rule")}
        </button>
      </p>
      <Loaded of={rules}>
        {list =>
          list.length === 0 ? (
            <Empty title={t("This server has no rule.")} />
          ) : (
            <ul class="notes">
              {list.map(rule => (
                <RuleRow
                  key={rule.id}
                  of={rule}
                  onEdit={() => edit(rule)}
                  onChange={enabled => change(rule, enabled)}
                  onRemove={() => remove(rule)}
                />
              ))}
            </ul>
          )
        }
      </Loaded>
      {editing && (
        <RuleEditor
          rule={editing === "new" ? undefined : editing}
          onSave={draft => save(editing, draft)}
          reach={(draft, set) => <Reach known={known} of={draft} onChange={set} />}
          onClose={() => edit(undefined)}
        />
      )}
    </section>
  )
}

interface RowOptions {
  readonly of: AutomodRuleResponse
  readonly onEdit: () => void
  readonly onChange: (enabled: boolean) => void
  readonly onRemove: () => void
}

function RuleRow({ of: { name, rule_type, actions, enabled, unjudged }, onEdit, onChange, onRemove }: RowOptions) {
  return (
    <li>
      <p>
        <b class="long">{name}</b> <span class="badge">{kinds()[rule_type].title}</span>{" "}
        <span class={enabled ? "badge good" : "badge"}>{enabled ? t("in force") : t("off")}</span>{" "}
        <span class="faint">{actions.map(({ action_type }) => titleOf(action_type)).join(", ")}</span>
      </p>
      {unjudged && (
        <p class="hint">
          {count(unjudged.count, "{n} message passed without a verdict.", "{n} messages passed without a verdict.")}
        </p>
      )}
      <p class="buttons start">
        <button type="button" class="small" aria-label={t("Change {name}", { name })} onClick={onEdit}>
          {t("Change")}
        </button>
        <button type="button" class="small" onClick={() => onChange(!enabled)}>
          {enabled ? t("Switch off") : t("Switch on")}
        </button>
        <button type="button" class="small" aria-label={t("Delete {name}", { name })} onClick={onRemove}>
          {t("Delete")}
        </button>
      </p>
    </li>
  )
}

interface ReachOptions {
  readonly known: KnownServer
  readonly of: RuleDraft
  readonly onChange: (change: Partial<RuleDraft>) => void
}

function Reach({ known, of, onChange }: ReachOptions) {
  const roles = [...known.roles.values()]
    .filter(({ is_default }) => !is_default)
    .map(({ id, name }) => [id, name] as const)
  const channels = [...known.channels.values()]
    .filter(({ type }) => type !== "category")
    .map(({ id, name }) => [id, `#${name}`] as const)
  return (
    <details>
      <summary>{t("Whom and where it is for")}</summary>
      <Several
        title={t("Only members with one of these roles (none: everybody)")}
        of={roles}
        value={of.applied_roles ?? []}
        onValue={applied_roles => onChange({ applied_roles })}
      />
      <Several
        title={t("Not members with one of these roles")}
        of={roles}
        value={of.exempt_roles ?? []}
        onValue={exempt_roles => onChange({ exempt_roles })}
      />
      <Several
        title={t("Not in these channels")}
        of={channels}
        value={of.exempt_channels ?? []}
        onValue={exempt_channels => onChange({ exempt_channels })}
      />
    </details>
  )
}

interface SeveralOptions {
  readonly title: string
  readonly of: readonly (readonly [id: string, name: string])[]
  readonly value: readonly string[]
  readonly onValue: (value: string[]) => void
}

function Several({ title, of, value, onValue }: SeveralOptions) {
  if (of.length === 0) return null
  return (
    <fieldset>
      <legend>{title}</legend>
      <div class="checks">
        {of.map(([id, name]) => (
          <label key={id}>
            <input
              type="checkbox"
              checked={value.includes(id)}
              onChange={event =>
                onValue(event.currentTarget.checked ? [...value, id] : value.filter(one => one !== id))
              }
            />
            <span class="long">{name}</span>
          </label>
        ))}
      </div>
    </fieldset>
  )
}

const pageSize = 50

function Violations({ known }: { known: KnownServer }) {
  const { client } = me()
  const { id: server } = known.facts
  const pages = usePages(
    (_, __, last: Awaited<ReturnType<typeof client.listAutomodViolations>>[number] | undefined) =>
      client.listAutomodViolations({ server_id: server, limit: String(pageSize), ...(last && { before: last.id }) }),
    ({ id }) => id,
    [server],
    pageSize,
  )
  return (
    <section class="card">
      <h2>{t("Who broke a rule")}</h2>
      {pages.error !== undefined && <Failed error={pages.error} onRetry={pages.reload} />}
      {pages.items.length === 0 && !pages.isLoading && <Empty title={t("Nobody.")} />}
      <ul class="notes">
        {pages.items.map(
          ({ id, user_id, channel_id, rule_type, matched_content, severity, reputation, created_at }) => (
            <li key={id}>
              <p>
                <b class="long">{nameIn(known, user_id, user_id)}</b>{" "}
                <span class="long">#{known.channels.get(channel_id)?.name ?? channel_id}</span>{" "}
                <span class="badge">{kinds()[rule_type].title}</span>{" "}
                <span class="badge warm">{choiceWords("severity", severity)}</span> <Time at={created_at} apart />
              </p>
              <p>
                {matched_content !== "" && <q class="long">{matched_content}</q>}{" "}
                <span class="faint">{t("Reputation now: {n} of 100.", { n: reputation })}</span>
              </p>
            </li>
          ),
        )}
      </ul>
      <p class="buttons start">
        {pages.hasMore && (
          <button type="button" onClick={pages.more}>
            {t("Older ones")}
          </button>
        )}
        <button type="button" onClick={pages.reload}>
          {t("Read again")}
        </button>
      </p>
    </section>
  )
}
