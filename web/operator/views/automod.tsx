import { useState } from "preact/hooks"
import { RuleEditor } from "../../kit/automod/rule-editor.tsx"
import { kinds, titleOf } from "../../kit/automod/rule-types.ts"
import type { RuleDraft } from "../../kit/automod/rules.ts"
import { ask } from "../../kit/dialog.tsx"
import { Form, TextField } from "../../kit/forms.tsx"
import { Time } from "../../kit/time.tsx"
import { useKeys } from "../../kit/keys.ts"
import { useResource } from "../../kit/resource.ts"
import { place, setQuery } from "../../kit/router.ts"
import { Badge, Empty, Facts, Loaded } from "../../kit/states.tsx"
import { Table } from "../../kit/table.tsx"
import { count, t } from "../../kit/text.ts"
import { attempt, say } from "../../kit/toasts.tsx"
import { Classifiers } from "../automod/classifiers.tsx"
import { call } from "../client.ts"
import { Header } from "../header.tsx"
import type { Rule } from "../wire.ts"

export function Automod() {
  const config = useResource(signal => call("GET /automod/config", {}, { signal }), [])
  const serverId = place.value.query.get("server") ?? ""
  const enabled = config.data?.enabled
  const set = async (enabled: boolean) => {
    const data = await call("PUT /automod/config", { body: { enabled } })
    config.set(() => data)
  }
  const switchOff = () =>
    ask({
      title: t("Switch auto-moderation off?"),
      will: <p>{t("No rule of any server looks at a message, from this moment on, until it is switched on again.")}</p>,
      does: t("Switch off"),
      isDangerous: true,
      work: async () => {
        await set(false)
        say(t("Auto-moderation is off."), () => set(true))
      },
    })
  return (
    <>
      <Header
        title={
          <>
            {t("Auto-moderation")}{" "}
            {enabled !== undefined &&
              (enabled ? <Badge tone="good">{t("on")}</Badge> : <Badge tone="bad">{t("off")}</Badge>)}
          </>
        }
        about={t("Rules belong to servers; the switch and the classifiers are for all of them.")}
      >
        {enabled === true && (
          <button type="button" class="danger" onClick={switchOff}>
            {t("Switch it off …")}
          </button>
        )}
        {enabled === false && (
          <button
            type="button"
            class="strong"
            onClick={() => void attempt(() => set(true), t("Auto-moderation is on."))}
          >
            {t("Switch it on")}
          </button>
        )}
      </Header>
      <h2>{t("Rules of a server")}</h2>
      <ServerChoice id={serverId} />
      {serverId !== "" && <Rules key={serverId} serverId={serverId} />}
      <h2>{t("Classifiers")}</h2>
      <Loaded of={config}>{data => <Classifiers config={data} onChange={data => config.set(() => data)} />}</Loaded>
    </>
  )
}

function ServerChoice({ id }: { id: string }) {
  const [text, setText] = useState(id)
  return (
    <Form
      does={t("Show its rules")}
      inline
      isReady={text.trim() !== ""}
      onSubmit={async () => setQuery({ server: text.trim() })}
    >
      <TextField label={t("Server id")} value={text} onValue={setText} inputMode="numeric" pattern="\s*\d{1,19}\s*" />
    </Form>
  )
}

/** The rule as it is written when it is made. */
const draftOf = ({ server_id, name, rule_type, config, actions, ...others }: Rule) => {
  const { applied_roles, exempt_roles, exempt_channels, priority, check_all, enabled } = others
  const scope = { applied_roles, exempt_roles, exempt_channels, priority, check_all, enabled }
  return { server_id, name, rule_type, config, actions, ...scope }
}

function Rules({ serverId }: { serverId: string }) {
  const rules = useResource(
    signal => call("GET /automod/rules", { query: { server_id: serverId } }, { signal }),
    [serverId],
  )
  const [editing, edit] = useState<Rule | "new">()
  useKeys(t("Auto-moderation"), [{ key: "c", does: t("Make a rule"), run: () => edit("new") }])
  const remove = (rule: Rule) =>
    ask({
      title: t("Delete {name}?", { name: rule.name }),
      will: <p>{t("This one rule of the server is gone; what it recorded stays. It can be undone, as a new rule.")}</p>,
      does: t("Delete"),
      isDangerous: true,
      work: async () => {
        await call("DELETE /automod/rules/:rule_id", { params: { rule_id: rule.id } })
        say(t("The rule {name} is deleted.", { name: rule.name }), async () => {
          await call("POST /automod/rules", { body: draftOf(rule) })
          rules.reload()
        })
        rules.reload()
      },
    })
  const save = async ({ rule_type, ...draft }: RuleDraft, edited: Rule | "new") => {
    const { name, config, actions, priority = 0, check_all = false, enabled = true } = draft
    const body = { name, config, actions, priority, check_all, enabled }
    if (edited === "new") await call("POST /automod/rules", { body: { ...body, server_id: serverId, rule_type } })
    else await call("PATCH /automod/rules/:rule_id", { params: { rule_id: edited.id }, body })
    rules.reload()
  }
  return (
    <>
      <p class="buttons start">
        <button type="button" class="strong" onClick={() => edit("new")}>
          {t("A new rule …")} <kbd>c</kbd>
        </button>
      </p>
      <Loaded of={rules}>
        {rows => (
          <Table<Rule>
            caption={t("Rules")}
            rows={rows}
            keyOf={({ id }) => id}
            onOpen={edit}
            empty={<Empty title={t("This server has no rule.")} />}
            columns={[
              { title: t("Name"), cell: ({ name }) => <strong>{name}</strong> },
              {
                title: t("Kind"),
                rem: 9,
                from: "medium",
                cell: ({ rule_type, applied_roles: { length } }) => (
                  <>
                    {kinds()[rule_type].title}
                    {length > 0 && <small>{count(length, "for {n} role only", "for {n} roles only")}</small>}
                  </>
                ),
              },
              {
                title: t("Then"),
                rem: 14,
                from: "large",
                cell: rule => rule.actions.map(({ action_type }) => titleOf(action_type)).join(", "),
              },
              { title: t("Priority"), rem: 5, kind: "number", from: "medium", cell: ({ priority }) => priority },
              { title: t("Changed"), rem: 11, from: "large", cell: ({ updated_at }) => <Time at={updated_at} /> },
              {
                title: t("State"),
                rem: 6,
                cell: ({ enabled }) =>
                  enabled ? <Badge tone="good">{t("in force")}</Badge> : <Badge>{t("off")}</Badge>,
              },
              {
                title: t("Change"),
                rem: 7.5,
                cell: rule => (
                  <button
                    type="button"
                    class="small"
                    aria-label={t("Delete {name}", { name: rule.name })}
                    onClick={event => {
                      event.stopPropagation()
                      remove(rule)
                    }}
                  >
                    {t("Delete …")}
                  </button>
                ),
              },
            ]}
          />
        )}
      </Loaded>
      {editing && (
        <RuleEditor
          rule={editing === "new" ? undefined : editing}
          onSave={draft => save(draft, editing)}
          onTest={({ rule_type, config, actions }, text) =>
            call("POST /automod/test", { body: { rule_type, config, actions, text } })
          }
          reach={draft => editing !== "new" && <Reach of={draft} />}
          onClose={() => edit(undefined)}
        />
      )}
    </>
  )
}

/** Whom and where a rule is for: moderators of the server set it, and saving leaves it. */
function Reach({ of: { applied_roles = [], exempt_roles = [], exempt_channels = [] } }: { of: RuleDraft }) {
  const ids = (of: readonly string[], none: string) => (of.length === 0 ? none : <code>{of.join(", ")}</code>)
  return (
    <Facts
      of={[
        [t("Only for roles"), ids(applied_roles, t("for every member"))],
        [t("Not for roles"), ids(exempt_roles, t("none"))],
        [t("Not in channels"), ids(exempt_channels, t("none"))],
      ]}
    />
  )
}
