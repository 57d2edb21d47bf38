import { useState } from "preact/hooks"
import { Dialog } from "../../kit/dialog.tsx"
import { Checkbox, CopyButton, Form, Select, TextField, type Choices } from "../../kit/forms.tsx"
import { number } from "../../kit/format.ts"
import { Time } from "../../kit/time.tsx"
import { useKeys } from "../../kit/keys.ts"
import { useResource } from "../../kit/resource.ts"
import { go, linkTo } from "../../kit/router.ts"
import { Badge, Empty, Loaded } from "../../kit/states.tsx"
import { Table } from "../../kit/table.tsx"
import { t } from "../../kit/text.ts"
import { call } from "../client.ts"
import { Header } from "../header.tsx"
import type { AccessToken, ScopeMode } from "../wire.ts"

export const modes: Choices<ScopeMode> = [
  ["none", t("From everywhere")],
  ["monitor", t("From everywhere; note what is outside of its addresses")],
  ["enforce", t("Only from its addresses")],
]

export const nameOf = ({ name, id }: AccessToken): string => name || t("Token {id}", { id })

export function TokenState({ of }: { of: AccessToken }) {
  if (of.revoked) return <Badge tone="bad">{t("revoked")}</Badge>
  if (of.expires_at !== null && of.expires_at * 1_000 <= Date.now()) return <Badge tone="warm">{t("expired")}</Badge>
  return <Badge tone="good">{t("valid")}</Badge>
}

export function AccessTokens() {
  const [showsRevoked, showRevoked] = useState(false)
  const [isAdding, setAdding] = useState(false)
  const tokens = useResource(
    signal => call("GET /security/access-tokens", { query: { include_revoked: showsRevoked } }, { signal }),
    [showsRevoked],
  )
  useKeys(t("Access tokens"), [{ key: "c", does: t("Make a token"), run: () => setAdding(true) }])
  const isGateOpen = tokens.data !== undefined && !tokens.data.some(({ revoked }) => !revoked)
  return (
    <>
      <Header
        title={t("Access tokens")}
        about={
          isGateOpen
            ? t("There is none, so the API is open to every application.")
            : t("Every application has to bring one of these, beside what its users sign in with.")
        }
      >
        <button type="button" class="strong" onClick={() => setAdding(true)}>
          {t("Make a token …")} <kbd>c</kbd>
        </button>
      </Header>
      <Checkbox label={t("Revoked ones, too")} value={showsRevoked} onValue={showRevoked} />
      <Loaded of={tokens}>
        {rows => (
          <Table<AccessToken>
            caption={t("Access tokens")}
            rows={rows}
            keyOf={({ id }) => id}
            hrefOf={({ id }) => linkTo(["access-tokens", id])}
            empty={<Empty title={t("There is no access token.")} />}
            columns={[
              { title: t("Name"), cell: token => <strong>{nameOf(token)}</strong> },
              { title: t("Used"), rem: 6, kind: "number", cell: token => number(token.use_count_total) },
              {
                title: t("Denied"),
                rem: 6,
                kind: "number",
                from: "large",
                cell: token => number(token.denied_count_total),
              },
              {
                title: t("Addresses"),
                rem: 6.5,
                kind: "number",
                from: "large",
                cell: token => number(token.distinct_ip_count),
              },
              {
                title: t("Last used"),
                rem: 8,
                from: "medium",
                cell: token => <Time at={token.last_used_at} none={t("never")} apart />,
              },
              {
                title: t("Until"),
                rem: 11,
                from: "medium",
                cell: token => <Time at={token.expires_at} none={t("for good")} />,
              },
              { title: t("State"), rem: 6.5, cell: token => <TokenState of={token} /> },
            ]}
          />
        )}
      </Loaded>
      {isAdding && <NewToken isFirst={isGateOpen} onClose={() => setAdding(false)} onChange={tokens.reload} />}
    </>
  )
}

const endOfDay = (date: string) => Math.floor(new Date(`${date}T23:59:59`).getTime() / 1_000)

function NewToken({ isFirst, onClose, onChange }: { isFirst: boolean; onClose: () => void; onChange: () => void }) {
  const [name, setName] = useState("")
  const [description, setDescription] = useState("")
  const [date, setDate] = useState("")
  const [mode, setMode] = useState<ScopeMode>("none")
  const [isUnderstood, understand] = useState(false)
  const [made, setMade] = useState<{ token: string; id: string }>()
  if (made)
    return (
      <NewSecret
        token={made.token}
        onClose={() => {
          onClose()
          go(["access-tokens", made.id])
        }}
      />
    )
  return (
    <Dialog title={t("Make an access token")} onClose={onClose}>
      <Form
        does={t("Make the token")}
        isDangerous={isFirst}
        isReady={!isFirst || isUnderstood}
        onCancel={onClose}
        onSubmit={async () => {
          const { token, access_token } = await call("POST /security/access-tokens", {
            body: {
              scope_mode: mode,
              ...(name && { name }),
              ...(description && { description }),
              ...(date && { expires_at: endOfDay(date) }),
            },
          })
          onChange()
          setMade({ token, id: access_token.id })
        }}
      >
        <TextField label={t("Name")} value={name} onValue={setName} maxLength={100} takesFocus />
        <TextField label={t("What it is for")} value={description} onValue={setDescription} maxLength={500} />
        <TextField
          label={t("Last day")}
          hint={t("Left empty: until it is revoked.")}
          type="date"
          value={date}
          onValue={setDate}
        />
        <Select label={t("Where it may be used")} value={mode} choices={modes} onValue={setMode} />
        {isFirst && (
          <>
            <p class="notice bad">
              {t(
                "It is the first one. From then on every request of every application that does not bring a token is refused with 401, until all tokens are revoked.",
              )}
            </p>
            <Checkbox label={t("The applications are ready for it")} value={isUnderstood} onValue={understand} />
          </>
        )}
      </Form>
    </Dialog>
  )
}

export function NewSecret({ token, onClose }: { token: string; onClose: () => void }) {
  return (
    <Dialog title={t("The token")} onClose={onClose}>
      <p>{t("It is shown this once: the server keeps only its digest.")}</p>
      <p class="secret-line">
        <code class="long">{token}</code> <CopyButton text={token} />
      </p>
      <p class="faint">
        {t("Applications send it with every request, as the header {header}.", { header: "X-API-Access-Token" })}
      </p>
      <p class="buttons">
        <button type="button" class="strong" onClick={onClose}>
          {t("I have kept it")}
        </button>
      </p>
    </Dialog>
  )
}
