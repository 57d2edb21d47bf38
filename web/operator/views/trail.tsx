import { useEffect, useState } from "preact/hooks"
import { Dialog } from "../../kit/dialog.tsx"
import { Select, TextField, type Choices } from "../../kit/forms.tsx"
import { Time } from "../../kit/time.tsx"
import { usePages } from "../../kit/resource.ts"
import { place, setQuery } from "../../kit/router.ts"
import { Badge, Empty, Facts, Failed } from "../../kit/states.tsx"
import { Table } from "../../kit/table.tsx"
import { t } from "../../kit/text.ts"
import { call } from "../client.ts"
import { Header } from "../header.tsx"
import { trailActions } from "../trail-actions.ts"
import type { TrailEntry } from "../wire.ts"

/** `lockUser` as `Lock user`. */
const wordsFor = (action: string) => {
  const words = action.replace(/([a-z])([A-Z])/g, (_, one: string, other: string) => `${one} ${other.toLowerCase()}`)
  return words.charAt(0).toUpperCase() + words.slice(1)
}

const actions: Choices<string> = [
  ["", t("anything")],
  ...trailActions
    .map(action => [action, wordsFor(action)] as const)
    .toSorted(([, one], [, other]) => one.localeCompare(other)),
]
const settledAfterMs = 300

export function TrailPage() {
  const { query } = place.value
  const [operator, target, action] = ["operator", "target", "action"].map(name => query.get(name) ?? "")
  const [chosen, choose] = useState<TrailEntry>()
  const pages = usePages<TrailEntry>(
    ({ limit }, signal, last) => {
      const query = {
        ...(operator && { operator }),
        ...(target && { target }),
        ...(action && { action }),
        ...(last && { before: last.id }),
        limit,
      }
      return call("GET /trail", { query }, { signal })
    },
    ({ id }) => id,
    [operator, target, action],
  )
  return (
    <>
      <Header
        title={t("Trail")}
        about={t("What operators did, or tried to. Nobody can change it; it is kept for a year.")}
      />
      <div class="bar">
        <Filter name="operator" label={t("Operator, the whole name")} maxLength={100} />
        <Filter name="target" label={t("About, the whole id, address or name")} maxLength={200} />
        <Select
          label={t("What was done")}
          value={action ?? ""}
          choices={actions}
          onValue={action => setQuery({ action })}
        />
      </div>
      {chosen && <Entry of={chosen} onClose={() => choose(undefined)} />}
      {pages.error !== undefined && <Failed error={pages.error} onRetry={pages.reload} />}
      <Table<TrailEntry>
        caption={t("What operators did")}
        rows={pages.items}
        keyOf={({ id }) => id}
        onOpen={choose}
        onEnd={pages.more}
        isLoading={pages.isLoading}
        empty={pages.error === undefined && <Empty title={t("Nothing of this kind was done.")} />}
        columns={[
          {
            title: t("What"),

            cell: ({ action, target }) => (
              <>
                <strong>{wordsFor(action)}</strong> {target !== null && <code>{target}</code>}
              </>
            ),
          },
          {
            title: t("Who"),
            rem: 10,
            from: "medium",
            cell: ({ operator }) => operator ?? <span class="faint">{t("nobody known")}</span>,
          },
          { title: t("From"), rem: 10, from: "large", cell: ({ address }) => <code>{address}</code> },
          { title: t("When"), rem: 11, from: "medium", cell: ({ at }) => <Time at={at} /> },
          { title: t("Result"), rem: 9.5, cell: entry => <Outcome of={entry} /> },
        ]}
      />
    </>
  )
}

/** It looks when somebody has stopped to type, and takes what another link put there. */
function Filter({ name, label, maxLength }: { name: string; label: string; maxLength: number }) {
  const value = place.value.query.get(name) ?? ""
  const [text, setText] = useState(value)
  useEffect(() => setText(before => (before.trim() === value ? before : value)), [value])
  useEffect(() => {
    const timer = setTimeout(() => setQuery({ [name]: text.trim() }), settledAfterMs)
    return () => clearTimeout(timer)
  }, [text])
  return <TextField label={label} type="search" value={text} onValue={setText} maxLength={maxLength} />
}

function Outcome({ of: { outcome, error } }: { of: TrailEntry }) {
  if (outcome === null) return <Badge tone="warm">{t("not known")}</Badge>
  if (outcome < 400) return <Badge tone="good">{t("done")}</Badge>
  return <Badge tone="bad">{error?.replaceAll("_", " ") ?? String(outcome)}</Badge>
}

function Entry({ of: entry, onClose }: { of: TrailEntry; onClose: () => void }) {
  const json = (value: Record<string, unknown>) =>
    Object.keys(value).length === 0 ? "–" : <code class="long">{JSON.stringify(value)}</code>
  return (
    <Dialog title={wordsFor(entry.action)} onClose={onClose} wide>
      <Facts
        of={[
          [t("When"), <Time at={entry.at} />],
          [t("Who"), entry.operator ?? t("nobody known")],
          [t("From"), <code>{entry.address}</code>],
          [t("About"), entry.target ?? "–"],
          [t("With"), json(entry.input)],
          [t("Result"), <Outcome of={entry} />],
          [t("What came of it"), json(entry.result)],
        ]}
      />
      <p class="buttons">
        <button type="button" onClick={onClose}>
          {t("Close")}
        </button>
      </p>
    </Dialog>
  )
}
