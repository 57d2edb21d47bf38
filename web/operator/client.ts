import { createApi } from "../kit/api.ts"
import { tabSession } from "../kit/session.ts"
import type { Wire } from "./wire.ts"

/** The folder that the page lies in: `/api/v1/admin` or its alias, below whatever a proxy puts before it. */
const root = location.pathname.replace(/\/[^/]*$/, "")
/** What a proxy puts before `/api/v1`. */
export const base = /^(.*?)\/api\/v1\//.exec(location.pathname)?.[1] ?? ""

export const session = tabSession("starling.operator")

export const pageAt = (name: "login" | "ui-dashboard"): string => `${root}/${name}`

export const { call, download } = createApi<Wire>({
  root,
  base,
  session,
  open: new Set(["POST /login", "POST /verify-otp"]),
  // Who signs in again comes back to where they were.
  onUnauthorized: () => location.replace(pageAt("login") + location.hash),
})
