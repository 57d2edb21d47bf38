import { fail } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { guildUpdate, type Server, type ServerPatch } from "../../contract/communities/servers.ts"
import { changesOf } from "../../domain/communities/audit.ts"
import { membersOf } from "../../domain/core/audience.ts"
import { holdsMessages } from "../../domain/core/channels.ts"
import { permissionMap } from "../../domain/core/permissions.ts"
import {
  serverObject,
  serverUpdate,
  type MemberState,
  type ServerSettings,
  type ServerState,
} from "../../domain/communities/servers.ts"
import { updateMember } from "../../storage/communities/guild-members.ts"
import { updateServer } from "../../storage/communities/servers.ts"
import { accessOf, mayView, requireMember, requirePermission } from "../shared/access.ts"
import { audit, type AuditContext, type AuditedTurn } from "../shared/audit.ts"
import { member, memberFacts } from "../shared/member-facts.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import { control, type ActorKind, type Publication } from "../../runtime/actor.ts"
import { voiceRechecks } from "../voice/voice.ts"

/** What a server is called, how it is presented and whose it is, among its home's commands. */
export interface ServerSettingsCommands {
  editServer(input: AuditContext & { patch: ServerPatch }): Server
  /** What somebody may do, in the server or in one of its channels. */
  readPermissions(input: { user: Snowflake; channel_id?: Snowflake | undefined }): Record<string, boolean>
  /**
   * Refuses a user who cannot hand the server to `heir`, before they are asked to prove their
   * identity.
   */
  requireTransfer(input: { user: Snowflake; heir: Heir }): { server_id: Snowflake }
  /**
   * The new owner sees and may do everything from now on; the former owner keeps what their roles
   * grant.
   */
  transferServer(input: AuditContext & { heir: Heir; isFull: boolean }): Server
}

/** A user who is to own a server. `mayOwn`: they are a person whose account is not about to end. */
export interface Heir {
  readonly id: Snowflake
  readonly mayOwn: boolean
}

type Home = Readonlied<ServerState>

const noChannel = "0"

export const serverSettingsCommands: ActorKind<ServerState, ServerState, ServerSettingsCommands>["commands"] = {
  editServer: {
    needs: ({ user }) => [member(user)],
    turn(context, { user, reason, patch }) {
      const { state: server } = context
      const caller = requireMember(server, user)
      requirePermission(server, caller, "server.manage")
      const channel = patch.default_channel_id
      if (channel !== undefined && channel !== noChannel && channel !== server.default_channel_id)
        requireDefaultChannel(server, channel, caller)
      const after: ServerSettings = {
        ...settingsOf(server),
        name: patch.name ?? server.name,
        description: patch.description === undefined ? server.description : patch.description || null,
        default_channel_id: channel === undefined ? server.default_channel_id : channel === noChannel ? null : channel,
        default_message_notifications: patch.default_message_notifications ?? server.default_message_notifications,
        public: patch.public ?? server.public,
        category: patch.category === undefined ? server.category : patch.category || null,
      }
      const reply = serverObject({ ...server, ...after })
      const changed = changing(server, after, { user, reason }, context)
      return changed ? { ...changed, reply } : { reply }
    },
  },

  readPermissions: {
    needs: ({ user }) => [member(user)],
    turn({ state: server, now }, { user, channel_id }) {
      if (channel_id === undefined) return { reply: permissionMap(server, [], requireMember(server, user), now) }
      requireMember(server, user)
      if (!server.channels.has(channel_id)) throw fail("channel_not_found")
      const { member: caller } = accessOf(server, channel_id, user, now)
      return { reply: permissionMap(server, server.overrides.get(channel_id) ?? [], caller, now) }
    },
  },

  requireTransfer: {
    needs: ({ user, heir }) => [member(user), member(heir.id)],
    turn({ state: server }, { user, heir }) {
      requireHeir(server, user, heir)
      return { reply: { server_id: server.id } }
    },
  },

  transferServer: {
    needs: ({ user, heir }) => [member(user), member(heir.id)],
    turn(context, { user, reason, heir, isFull }) {
      const { state: server } = context
      const becoming = requireHeir(server, user, heir)
      if (isFull) throw fail("server_limit")
      const after: ServerSettings = { ...settingsOf(server), owner_id: heir.id }
      const changed = changing(server, after, { user, reason }, context)!
      // The owner is not a temporary member any longer.
      const stays = becoming.temporary ? { ...becoming, temporary: false } : undefined
      return {
        apply: draft => {
          changed.apply(draft)
          if (stays) memberFacts.of(draft).get(heir.id)!.temporary = false
        },
        write: [...changed.write, ...(stays ? [updateMember({ ...stays, server_id: server.id })] : [])],
        publish: [...changed.publish, ...voiceRechecks(server, ({ user_id }) => user_id === user)],
        reply: serverObject({ ...server, ...after }),
      }
    },
  },
}

/** Tells members that something of their server changed. */
export const guildUpdated = (server: Parameters<typeof serverUpdate>[0]): Publication =>
  guildUpdate.to(membersOf(server.id), serverUpdate(server))

const settings = [
  "name",
  "description",
  "owner_id",
  "default_channel_id",
  "default_message_notifications",
  "public",
  "category",
] as const satisfies (keyof ServerSettings)[]

export const settingsOf = (server: Home): ServerSettings =>
  Object.fromEntries(settings.map(name => [name, server[name]])) as unknown as ServerSettings

/** The effects of a change of settings, for all callers; undefined: nothing changes. */
export function changing(server: Home, after: ServerSettings, by: AuditContext, turn: AuditedTurn) {
  const before = settingsOf(server)
  const changes = changesOf(before, after, settings)
  if (Object.keys(changes).length === 0) return undefined
  const { id } = server
  const identity = (is: ServerSettings) => ({ name: is.name, owner_id: is.owner_id })
  const isAnother = "name" in changes || "owner_id" in changes
  audit({ ...turn, ...by }, "SERVER_UPDATE", { type: "server", id, name: after.name }, changes)
  return {
    apply: (draft: ServerState) => {
      Object.assign(draft, after)
    },
    write: [updateServer({ ...after, id })],
    publish: [
      ...(isAnother
        ? [control(membersOf(id), { type: "server", server: id, before: identity(before), after: identity(after) })]
        : []),
      guildUpdated({ ...server, ...after }),
    ],
  }
}

/** A user who may not view a channel does not learn that it exists. */
function requireDefaultChannel(server: Home, id: Snowflake, caller: Readonlied<MemberState>): void {
  const channel = server.channels.get(id)
  if (!channel || !holdsMessages(channel) || !mayView(server, id, caller)) throw fail("invalid_default_channel")
}

/** The heir as a member. */
function requireHeir(server: Home, user: Snowflake, heir: Heir): Readonlied<MemberState> {
  requireMember(server, user)
  if (server.owner_id !== user) throw fail("not_owner")
  const found = memberFacts.of(server).get(heir.id)
  if (!found) throw fail("member_not_found")
  if (heir.id === user || !heir.mayOwn) throw fail("invalid_new_owner")
  return found
}
