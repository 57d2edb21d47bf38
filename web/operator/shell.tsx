import type { ComponentChildren, FunctionComponent } from "preact"
import { useEffect, useRef, useState } from "preact/hooks"
import { Questions } from "../kit/dialog.tsx"
import { useKeys } from "../kit/keys.ts"
import { useResource } from "../kit/resource.ts"
import { go, linkTo, place } from "../kit/router.ts"
import { t } from "../kit/text.ts"
import { theme, type Theme } from "../kit/theme.ts"
import { finishWaiting, Toasts } from "../kit/toasts.tsx"
import { call, pageAt, session } from "./client.ts"
import { KeyList } from "../kit/key-list.tsx"
import { AccessTokens } from "./views/access-tokens.tsx"
import { AccessTokenPage } from "./views/access-token.tsx"
import { Automod } from "./views/automod.tsx"
import { Blocks } from "./views/blocks.tsx"
import { Log } from "./views/log.tsx"
import { Names } from "./views/names.tsx"
import { Now } from "./views/now.tsx"
import { Reviews } from "./views/reviews.tsx"
import { Security } from "./views/security.tsx"
import { ServerStatePage } from "./views/server-state.tsx"
import { Telemetry } from "./views/telemetry.tsx"
import { TicketPage, Tickets } from "./views/tickets.tsx"
import { TrailPage } from "./views/trail.tsx"
import { UserPage } from "./views/user.tsx"
import { Users } from "./views/users.tsx"

interface View {
  readonly title: string
  /** The second key after `g`. */
  readonly key: string
  readonly page: FunctionComponent
  /** What is shown of one thing in the list: its id stands in the address. */
  readonly one?: FunctionComponent<{ id: string }>
}

const groups: readonly (readonly [title: string, views: Readonly<Record<string, View>>])[] = [
  [
    t("Service"),
    {
      now: { title: t("Now"), key: "n", page: Now },
      telemetry: { title: t("Telemetry"), key: "e", page: Telemetry },
      log: { title: t("Log"), key: "l", page: Log },
      "server-state": { title: t("Server state"), key: "s", page: ServerStatePage },
    },
  ],
  [
    t("People"),
    {
      users: { title: t("Users"), key: "u", page: Users, one: UserPage },
      reviews: { title: t("Reports"), key: "r", page: Reviews },
      tickets: { title: t("Tickets"), key: "t", page: Tickets, one: TicketPage },
    },
  ],
  [
    t("Rules"),
    {
      blocks: { title: t("Blocks"), key: "b", page: Blocks },
      names: { title: t("Banned names"), key: "m", page: Names },
      automod: { title: t("Auto-moderation"), key: "a", page: Automod },
      "access-tokens": { title: t("Access tokens"), key: "k", page: AccessTokens, one: AccessTokenPage },
    },
  ],
  [
    t("Operators"),
    {
      trail: { title: t("Trail"), key: "h", page: TrailPage },
      security: { title: t("Your account"), key: "y", page: Security },
    },
  ],
]
const views: Readonly<Record<string, View>> = Object.assign({}, ...groups.map(([, views]) => views))

const countsEveryMs = 30_000

/** What waits for somebody. */
function useCounts(): Readonly<Record<string, number>> {
  const { data } = useResource(
    async signal => {
      const pending = async (
        name: "GET /message-reports/counts" | "GET /user-reports/counts" | "GET /hash-reports/counts",
      ) => (await call(name, {}, { signal })).pending
      const [messages, users, hashes, { tickets, db_status }] = await Promise.all([
        pending("GET /message-reports/counts"),
        pending("GET /user-reports/counts"),
        pending("GET /hash-reports/counts"),
        call("GET /dashboard", {}, { signal }),
      ])
      // Where they could not be counted the server says 0.
      const open = db_status === "healthy" ? { tickets: tickets.open } : {}
      return { reviews: messages + users + hashes, ...open }
    },
    [],
    { everyMs: countsEveryMs },
  )
  return data ?? {}
}

async function signOut(): Promise<void> {
  finishWaiting()
  // Without an answer the session ends by itself; this tab forgets it in any case.
  await call("POST /logout").catch(() => undefined)
  session.forget()
  location.replace(pageAt("login"))
}

export function Shell() {
  const { path } = place.value
  const [name = "now", id] = path
  const view = views[name]
  const [isMenuOpen, openMenu] = useState(false)
  const [areKeysShown, showKeys] = useState(false)
  const counts = useCounts()
  const main = useRef<HTMLElement>(null)
  const title = view?.title ?? t("Not found")

  useKeys(t("Go to"), [
    ...Object.entries(views).map(([name, { key, title }]) => ({ key: `g ${key}`, does: title, run: () => go([name]) })),
    { key: "?", does: t("This list of keys"), run: () => showKeys(true) },
  ])

  const isFirst = useRef(true)
  useEffect(() => {
    document.title = `${title} · ${document.body.dataset["server"] ?? ""}`
    openMenu(false)
    // The page did not change as the browser sees it: those who do not see it are told here.
    if (!isFirst.current) {
      scrollTo(0, 0)
      // A view may have put the focus where it is wanted first.
      if (!main.current?.contains(document.activeElement)) main.current?.focus({ preventScroll: true })
    }
    isFirst.current = false
  }, [name, id])

  return (
    <>
      <a class="skip" href="#main" onClick={event => (event.preventDefault(), main.current?.focus())}>
        {t("Skip to the content")}
      </a>
      <header class="top">
        <button
          type="button"
          class="quiet menu"
          aria-expanded={isMenuOpen}
          aria-controls="menu"
          onClick={() => openMenu(!isMenuOpen)}
        >
          ☰ <span class="unseen">{t("Menu")}</span>
        </button>
        <strong>{document.body.dataset["server"]}</strong>
        <span class="faint where">{title}</span>
      </header>
      <nav id="menu" class={isMenuOpen ? "side open" : "side"} aria-label={t("Views")}>
        <p class="name">{document.body.dataset["server"]}</p>
        {groups.map(([group, views]) => (
          <section key={group}>
            <h2>{group}</h2>
            <ul>
              {Object.entries(views).map(([one, { title }]) => (
                <li key={one}>
                  <a href={linkTo([one])} aria-current={one === name ? "page" : undefined}>
                    {title}
                    {(counts[one] ?? 0) > 0 && <Count of={counts[one]!} />}
                  </a>
                </li>
              ))}
            </ul>
          </section>
        ))}
        <section class="end">
          <ThemeChoice />
          <button type="button" class="quiet" onClick={() => showKeys(true)}>
            {t("Keys")} <kbd>?</kbd>
          </button>
          <button type="button" class="quiet" onClick={() => void signOut()}>
            {t("Sign out")}
          </button>
        </section>
      </nav>
      <main id="main" ref={main} tabIndex={-1} aria-label={title}>
        <Shown view={view} id={id} />
      </main>
      <Toasts />
      <Questions />
      {areKeysShown && <KeyList onClose={() => showKeys(false)} />}
    </>
  )
}

function Shown({ view, id }: { view: View | undefined; id: string | undefined }): ComponentChildren {
  if (!view) return <h1>{t("There is no such view.")}</h1>
  if (id !== undefined && view.one) return <view.one key={id} id={id} />
  return <view.page />
}

function Count({ of }: { of: number }) {
  return (
    <>
      {" "}
      <span class="count">
        {of > 999 ? "999+" : of}
        <span class="unseen"> {t("waiting")}</span>
      </span>
    </>
  )
}

const themes = [
  ["system", t("System")],
  ["light", t("Light")],
  ["dark", t("Dark")],
] as const

function ThemeChoice() {
  return (
    <label class="theme">
      <span>{t("Theme")}</span>
      <select value={theme.value} onChange={event => (theme.value = event.currentTarget.value as Theme)}>
        {themes.map(([value, label]) => (
          <option key={value} value={value}>
            {label}
          </option>
        ))}
      </select>
    </label>
  )
}
