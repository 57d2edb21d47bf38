import type { VNode } from "preact"
import type { ServerPermissions } from "../../../client/contract.ts"
import { linkTo } from "../../kit/router.ts"
import { Empty } from "../../kit/states.tsx"
import { t } from "../../kit/text.ts"
import { useMay } from "../may.ts"
import { watch } from "../session.ts"
import { AuditLog } from "./audit-log.tsx"
import { Automod } from "./automod.tsx"
import { Bans } from "./bans.tsx"
import { Channels } from "./channels.tsx"
import { Danger } from "./danger.tsx"
import { EmojiAndStickers } from "./emoji.tsx"
import { Invites } from "./invites.tsx"
import { Overview } from "./overview.tsx"
import { Roles } from "./roles.tsx"
import type { PartOptions } from "./shared.tsx"
import { Webhooks } from "./webhooks.tsx"

interface Part {
  readonly name: string
  readonly title: string
  /** Any of these shows it; absent: every member may look. */
  readonly needs?: readonly (keyof ServerPermissions)[]
  readonly view: (options: PartOptions) => VNode
}

const parts = (): readonly Part[] => [
  { name: "overview", title: t("Overview"), view: Overview },
  { name: "roles", title: t("Roles"), needs: ["roles.manage", "members.manage_roles"], view: Roles },
  { name: "channels", title: t("Channels"), needs: ["channels.manage", "roles.manage"], view: Channels },
  { name: "invites", title: t("Invites"), needs: ["invites.manage", "server.manage"], view: Invites },
  { name: "bans", title: t("Bans"), needs: ["members.ban", "bans.view"], view: Bans },
  { name: "emoji", title: t("Emoji"), needs: ["emojis.manage", "server.manage"], view: EmojiAndStickers },
  { name: "webhooks", title: t("Webhooks"), needs: ["webhooks.manage"], view: Webhooks },
  { name: "automod", title: t("Auto-moderation"), needs: ["server.automod"], view: Automod },
  { name: "log", title: t("Audit log"), needs: ["server.view_audit_log"], view: AuditLog },
  { name: "danger", title: t("Leave or delete"), view: Danger },
]

/** What a server is, and everything that can be decided about it: what one may not do is not there. */
export function ServerSettings({ server, part, item }: PartOptions & { part: string }) {
  const may = useMay(server)
  const { state } = watch(`server ${server}`, "servers")
  if (!state.servers.has(server)) return <Empty title={t("You are not in this server.")} />
  const shown = parts().filter(({ needs }) => needs === undefined || needs.some(may))
  const { name: current, view: View } = shown.find(({ name }) => name === part) ?? shown[0]!
  return (
    <div class="page">
      <nav class="parts" aria-label={t("About this server")}>
        {shown.map(({ name, title }) => (
          <a
            key={name}
            href={linkTo(["servers", server, "settings", name])}
            aria-current={name === current ? "page" : undefined}
          >
            {title}
          </a>
        ))}
      </nav>
      <View key={current} server={server} item={current === part ? item : undefined} />
    </div>
  )
}
