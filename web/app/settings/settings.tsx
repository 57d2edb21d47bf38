import { linkTo } from "../../kit/router.ts"
import { msgid, t } from "../../kit/text.ts"
import { later } from "../later.tsx"
import { signOut } from "../session.ts"
import { Account } from "./account.tsx"
import { Look } from "./look.tsx"
import { Notifications } from "./notifications.tsx"
import { Privacy } from "./privacy.tsx"
import { Security } from "./security.tsx"
import { Sessions } from "./sessions.tsx"

const Bots = later(async () => (await import("../dialogs.ts")).Bots)

const parts = [
  ["account", msgid("Account")],
  ["security", msgid("Password and second factor")],
  ["sessions", msgid("Sessions")],
  ["notifications", msgid("Notifications")],
  ["privacy", msgid("Privacy")],
  ["look", msgid("Look")],
  ["bots", msgid("Bots")],
] as const

/** What a person decides for themselves. */
export function Settings({ part }: { part: string }) {
  return (
    <div class="page">
      <nav class="parts" aria-label={t("Settings")}>
        {parts.map(([name, title]) => (
          <a key={name} href={linkTo(["settings", name])} aria-current={name === part ? "page" : undefined}>
            {t(title)}
          </a>
        ))}
        <button type="button" class="quiet" onClick={() => void signOut()}>
          {t("Sign out")}
        </button>
      </nav>
      {part === "security" ? (
        <Security />
      ) : part === "sessions" ? (
        <Sessions />
      ) : part === "privacy" ? (
        <Privacy />
      ) : part === "notifications" ? (
        <Notifications />
      ) : part === "look" ? (
        <Look />
      ) : part === "bots" ? (
        <Bots />
      ) : (
        <Account />
      )}
    </div>
  )
}
