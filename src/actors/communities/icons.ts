import { iconPath } from "../../contract/communities/icons.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import type { Server as ShownServer } from "../../contract/communities/servers.ts"
import { secondsAt } from "../../std/clock.ts"
import { serverObject, type ServerState } from "../../domain/communities/servers.ts"
import type { FileState } from "../../domain/core/file-types.ts"
import { serverFile } from "../../storage/core/blobs.ts"
import { discardFile } from "../../storage/messages/files.ts"
import { deleteIcon, putIcon } from "../../storage/communities/icons.ts"
import { requireMember, requirePermission } from "../shared/access.ts"
import { audit, type AuditContext } from "../shared/audit.ts"
import { discarded } from "../shared/files.ts"
import { member } from "../shared/member-facts.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import type { ActorKind, TurnContext } from "../../runtime/actor.ts"
import { guildUpdated } from "./server-settings.ts"
import { defineFact } from "../shared/facts.ts"

/**
 * A server's own picture, among its home's commands. A file is there before its row, and goes after
 * it.
 */
export interface IconCommands {
  /** `former`: as with avatars. */
  putIcon(input: AuditContext & { file: FileState }): ShownServer & { former?: string }
  deleteIcon(input: AuditContext): { deleted: true }
}

const iconFacts = defineFact<ServerState, FileState>({
  keep: 1,
  async load(storage, server) {
    const icon = await storage.icons.find(server)
    return new Map(icon && [[iconKey, icon]])
  },
})
export const iconKey = "icon"
export const serverIcon = iconFacts.need(iconKey)

export const iconCommands: ActorKind<ServerState, ServerState, IconCommands>["commands"] = {
  putIcon: {
    needs: ({ user }) => [member(user), serverIcon],
    turn(context, { user, reason, file }) {
      const { state: server } = context
      requirePermission(server, requireMember(server, user), "server.manage")
      const { former, ...effects } = changed(context, { user, reason }, file)
      const icon_url = iconPath(server.id)
      const replaced = { key: serverFile(server.id, file.file), former, since: secondsAt(context.now) }
      return {
        ...effects,
        write: [putIcon({ ...file, ...replaced, server_id: server.id, icon_url })],
        reply: { ...serverObject({ ...server, icon_url }), ...(former !== undefined && { former }) },
      }
    },
  },

  deleteIcon: {
    needs: ({ user }) => [member(user), serverIcon],
    turn(context, { user, reason }) {
      const { state: server } = context
      requirePermission(server, requireMember(server, user), "server.manage")
      if (!iconFacts.of(server).get(iconKey)) return { reply: { deleted: true } }
      const { former, publish, apply } = changed(context, { user, reason }, null)
      const discard = former === undefined ? [] : [discardFile({ key: former, since: secondsAt(context.now) })]
      return {
        apply,
        write: [deleteIcon({ server_id: server.id }), ...discard],
        publish: [...publish, ...(former === undefined ? [] : [discarded(former)])],
        reply: { deleted: true },
      }
    },
  },
}

/** What is the same whether there is another icon from now on, or none. */
function changed(context: TurnContext<ServerState, ServerState>, by: AuditContext, file: FileState | null) {
  const { state: server } = context
  const before = iconFacts.of(server).get(iconKey)
  const icon_url = file && iconPath(server.id)
  // Another picture has the same address.
  audit(
    { ...context, ...by },
    "SERVER_UPDATE",
    { type: "server", id: server.id, name: server.name },
    { icon_url: { old: server.icon_url, new: icon_url } },
  )
  return {
    apply: (draft: ServerState) => {
      draft.icon_url = icon_url
      iconFacts.of(draft).set(iconKey, file)
    },
    publish: [guildUpdated({ ...server, icon_url })],
    /** What was the icon's file. */
    former: before ? serverFile(server.id, before.file) : undefined,
  }
}

/** What puts the icon into another file, if it is in the first one. */
export const iconInFile = (server: Readonlied<ServerState>, _id: Snowflake, from: string, file: FileState) =>
  iconFacts.of(server).get(iconKey)?.file === from &&
  ((draft: ServerState) => {
    iconFacts.of(draft).set(iconKey, file)
  })
