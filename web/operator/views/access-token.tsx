import { useState } from "preact/hooks"
import { ask, Dialog } from "../../kit/dialog.tsx"
import { Checkbox, Form, Select, TextField } from "../../kit/forms.tsx"
import { fieldTime, number } from "../../kit/format.ts"
import { Time } from "../../kit/time.tsx"
import { useResource } from "../../kit/resource.ts"
import { go, linkTo } from "../../kit/router.ts"
import { Badge, Facts, Loaded } from "../../kit/states.tsx"
import { t } from "../../kit/text.ts"
import { attempt, say } from "../../kit/toasts.tsx"
import { call } from "../client.ts"
import { Header } from "../header.tsx"
import type { AccessToken, AccessTokenDetail, Scope } from "../wire.ts"
import { modes, nameOf, NewSecret, TokenState } from "./access-tokens.tsx"

export function AccessTokenPage({ id }: { id: string }) {
  const params = { token_id: id }
  const detail = useResource(signal => call("GET /security/access-tokens/:token_id", { params }, { signal }), [id])
  const [dialog, setDialog] = useState<"edit" | { token: string; id: string }>()
  const rotate = (token: AccessToken) =>
    ask({
      title: t("Replace {name}?", { name: nameOf(token) }),
      will: (
        <p>
          {t(
            "A new token takes over its name, dates and addresses. The old one is refused from that moment: the applications that use it fail until they have the new one. This cannot be undone.",
          )}
        </p>
      ),
      does: t("Replace it"),
      isDangerous: true,
      work: async () => {
        const made = await call("POST /security/access-tokens/:token_id/rotate", { params, body: {} })
        setDialog({ token: made.token, id: made.access_token.id })
      },
    })
  const revoke = (token: AccessToken) =>
    ask({
      title: t("Revoke {name}?", { name: nameOf(token) }),
      will: (
        <p>
          {t(
            "It is refused from that moment, at {n} known addresses. If it is the last one the API is open to every application. This cannot be undone.",
            {
              n: token.distinct_ip_count,
            },
          )}
        </p>
      ),
      does: t("Revoke"),
      isDangerous: true,
      work: async () => {
        await call("POST /security/access-tokens/:token_id/revoke", { params })
        say(t("The token is revoked."))
        detail.reload()
      },
    })
  return (
    <>
      <p class="back">
        <a href={linkTo(["access-tokens"])}>{t("Access tokens")}</a>
      </p>
      <Loaded of={detail}>
        {data => {
          const token = data.access_token
          return (
            <>
              <Header
                title={
                  <>
                    {nameOf(token)} <TokenState of={token} />
                  </>
                }
                about={token.description}
              >
                {!token.revoked && (
                  <>
                    <button type="button" onClick={() => setDialog("edit")}>
                      {t("Edit …")}
                    </button>
                    <button type="button" onClick={() => rotate(token)}>
                      {t("Replace …")}
                    </button>
                    <button type="button" class="danger" onClick={() => revoke(token)}>
                      {t("Revoke …")}
                    </button>
                  </>
                )}
              </Header>
              <div class="columns">
                <About token={token} />
                <Scopes detail={data} reload={detail.reload} />
                <Uses detail={data} />
              </div>
              {dialog === "edit" && (
                <Edit token={token} onClose={() => setDialog(undefined)} onChange={detail.reload} />
              )}
            </>
          )
        }}
      </Loaded>
      {typeof dialog === "object" && (
        <NewSecret
          token={dialog.token}
          onClose={() => {
            setDialog(undefined)
            go(["access-tokens", dialog.id])
          }}
        />
      )}
    </>
  )
}

function About({ token }: { token: AccessToken }) {
  return (
    <section class="card" aria-labelledby="about">
      <h2 id="about">{t("Token")}</h2>
      <Facts
        of={[
          [t("Made"), <Time at={token.created_at} />],
          [t("Valid until"), <Time at={token.expires_at} none={t("it is revoked")} />],
          [t("Where"), modes.find(([mode]) => mode === token.scope_mode)?.[1]],
          [
            t("Used"),
            t("{n} times, from {addresses} addresses", {
              n: token.use_count_total,
              addresses: token.distinct_ip_count,
            }),
          ],
          [t("Denied"), number(token.denied_count_total)],
          [t("Last used"), <Time at={token.last_used_at} none={t("never")} />],
          ...(token.last_used_at === null
            ? []
            : [
                [t("From"), <code>{token.last_used_ip_address}</code>] as const,
                [t("For"), <code>{token.last_used_path}</code>] as const,
                [t("By"), token.last_used_user_agent] as const,
              ]),
        ]}
      />
    </section>
  )
}

function Scopes({ detail, reload }: { detail: AccessTokenDetail; reload: () => void }) {
  const [value, setValue] = useState("")
  const { id, revoked, scope_mode } = detail.access_token
  const params = { token_id: id }
  const add = (value: string) =>
    call("POST /security/access-tokens/:token_id/scopes", {
      params,
      body: { scope_type: value.includes("/") ? "cidr" : "ip", value },
    })
  const remove = (scope: Scope) =>
    attempt(
      () =>
        call("DELETE /security/access-tokens/:token_id/scopes/:scope_id", {
          params: { ...params, scope_id: scope.id },
        }),
      t("{value} is taken off.", { value: scope.value }),
      async () => {
        await attempt(() => add(scope.value), t("Undone."))
        reload()
      },
    ).then(reload)
  return (
    <section class="card" aria-labelledby="scopes">
      <h2 id="scopes">{t("Its addresses")}</h2>
      {detail.scopes.length === 0 && (
        <p class="faint">{scope_mode === "enforce" ? t("None, so it is refused everywhere.") : t("None.")}</p>
      )}
      <ul class="rows">
        {detail.scopes.map(scope => (
          <li key={scope.id}>
            <code>{scope.value}</code>
            {!revoked && (
              <button
                type="button"
                class="small"
                aria-label={t("Take off {value}", { value: scope.value })}
                onClick={() => void remove(scope)}
              >
                {t("Take off")}
              </button>
            )}
          </li>
        ))}
      </ul>
      {!revoked && (
        <Form
          does={t("Add")}
          inline
          isReady={value.trim() !== ""}
          onSubmit={async () => {
            await add(value.trim())
            setValue("")
            reload()
          }}
        >
          <TextField
            label={t("Address or range")}
            value={value}
            onValue={setValue}
            maxLength={128}
            spellcheck={false}
          />
        </Form>
      )}
    </section>
  )
}

function Uses({ detail }: { detail: AccessTokenDetail }) {
  return (
    <>
      <section class="card full" aria-labelledby="recent">
        <h2 id="recent">{t("Its latest uses")}</h2>
        {detail.recent_events.length === 0 && <p class="faint">{t("It was not used yet.")}</p>}
        <div class="scroll" tabIndex={0} role="group" aria-labelledby="recent">
          <table>
            <thead>
              <tr>
                {[t("When"), t("Address"), t("Request"), t("Program"), t("Result")].map(title => (
                  <th key={title} scope="col">
                    {title}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {detail.recent_events.map(event => (
                <tr key={event.id}>
                  <td>
                    <Time at={event.used_at} />
                  </td>
                  <td>
                    <code>{event.ip_address}</code>
                  </td>
                  <td>
                    <code>
                      {event.method} {event.path}
                    </code>
                  </td>
                  <td>{event.user_agent}</td>
                  <td>
                    {!event.allowed && (
                      <Badge tone="bad">{event.reject_reason?.replaceAll("_", " ") ?? t("denied")}</Badge>
                    )}
                    {event.allowed && event.scope_match === false && <Badge tone="warm">{t("outside")}</Badge>}
                    {event.allowed && event.scope_match !== false && <Badge tone="good">{t("allowed")}</Badge>}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </section>
      <section class="card" aria-labelledby="top-ips">
        <h2 id="top-ips">{t("Addresses that use it most")}</h2>
        <ul class="rows">
          {detail.top_ips.map(one => (
            <li key={one.ip_address}>
              <code>{one.ip_address}</code>
              <span class="faint">{t("{n}, {denied} denied", { n: one.request_count, denied: one.denied_count })}</span>
            </li>
          ))}
        </ul>
      </section>
      <section class="card" aria-labelledby="top-paths">
        <h2 id="top-paths">{t("What it is used for most")}</h2>
        <ul class="rows">
          {detail.top_paths.map(one => (
            <li key={`${one.method} ${one.path}`}>
              <code>
                {one.method} {one.path}
              </code>
              <span class="faint">{number(one.request_count)}</span>
            </li>
          ))}
        </ul>
      </section>
    </>
  )
}

function Edit({ token, onClose, onChange }: { token: AccessToken; onClose: () => void; onChange: () => void }) {
  const [name, setName] = useState(token.name ?? "")
  const [description, setDescription] = useState(token.description ?? "")
  const [mode, setMode] = useState(token.scope_mode)
  const [isEndless, setEndless] = useState(token.expires_at === null)
  const dateBefore = token.expires_at === null ? "" : fieldTime(token.expires_at).slice(0, 10)
  const [date, setDate] = useState(dateBefore)
  return (
    <Dialog title={t("Edit the token")} onClose={onClose}>
      <Form
        does={t("Save")}
        onCancel={onClose}
        onSubmit={async () => {
          // A day that stays as it was read keeps its hour.
          const until = date !== dateBefore && {
            expires_at: Math.floor(new Date(`${date}T23:59:59`).getTime() / 1_000),
          }
          await call("PATCH /security/access-tokens/:token_id", {
            params: { token_id: token.id },
            body: {
              name,
              description,
              scope_mode: mode,
              ...(isEndless ? { clear_expiry: true } : until),
            },
          })
          say(t("The token is changed."))
          onChange()
          onClose()
        }}
      >
        <TextField label={t("Name")} value={name} onValue={setName} maxLength={100} takesFocus />
        <TextField label={t("What it is for")} value={description} onValue={setDescription} maxLength={500} />
        <Select label={t("Where it may be used")} value={mode} choices={modes} onValue={setMode} />
        <Checkbox label={t("Until it is revoked")} value={isEndless} onValue={setEndless} />
        {!isEndless && <TextField label={t("Last day")} type="date" value={date} onValue={setDate} required />}
      </Form>
    </Dialog>
  )
}
