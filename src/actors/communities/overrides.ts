import { channelUpdate } from "../../contract/communities/channels.ts"
import { fail } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"
import type { Override as ShownOverride } from "../../contract/communities/overrides.ts"
import { permissionOf } from "../../contract/core/permissions.ts"
import { changesOf, type Changes } from "../../domain/communities/audit.ts"
import { membersOf, viewersOf } from "../../domain/core/audience.ts"
import { channelObject, type ChannelState } from "../../domain/core/channels.ts"
import type { Override } from "../../domain/core/overrides.ts"
import { maskOf, namesIn, type PermissionMask } from "../../domain/core/permission-masks.ts"
import { loosened, rankOf } from "../../domain/core/permissions.ts"
import type { ServerState } from "../../domain/communities/servers.ts"
import { deleteOverride, putOverride } from "../../storage/communities/overrides.ts"
import { accessOf, requireRank, type Access } from "../shared/access.ts"
import { audit } from "../shared/audit.ts"
import { member, memberFacts } from "../shared/member-facts.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import { control, type ActorKind } from "../../runtime/actor.ts"
import { voiceRechecks } from "../voice/voice.ts"
import { changesViewing } from "../../domain/communities/view-changes.ts"
import { takeViewChange, type PacedContext } from "./view-changes.ts"

/** What a channel allows or denies beside its server's roles, among its commands. */
export interface OverrideCommands {
  listOverrides(input: { user: Snowflake }): ShownOverride[]
  readOverride(input: { user: Snowflake; target_id: Snowflake }): ShownOverride
  setOverride(
    input: PacedContext & {
      target_id: Snowflake
      kind: Override["type"]
      allow: readonly string[]
      deny: readonly string[]
    },
  ): ShownOverride
  deleteOverride(input: PacedContext & { target_id: Snowflake }): { deleted: true }
  /** Of a member whose account is gone for good. */
  eraseOverride(input: { target_id: Snowflake }): { erased: boolean }
}

export const overrideCommands: ActorKind<ServerState, ChannelState, OverrideCommands>["commands"] = {
  listOverrides: {
    needs: ({ user }) => [member(user)],
    turn({ state: channel, home: server, now }, { user }) {
      requireManager(server, channel.id, user, now)
      return { reply: overridesOf(server, channel.id).map(override => overrideObject(channel.id, override)) }
    },
  },

  readOverride: {
    needs: ({ user }) => [member(user)],
    turn({ state: channel, home: server, now }, { user, target_id }) {
      requireManager(server, channel.id, user, now)
      const found = overridesOf(server, channel.id).find(override => override.target_id === target_id)
      if (!found) throw fail("override_not_found")
      return { reply: overrideObject(channel.id, found) }
    },
  },

  setOverride: {
    needs: ({ user, target_id, kind }) => [member(user), ...(kind === "member" ? [member(target_id)] : [])],
    turn(context, { user, reason, isLimited, target_id, kind, allow, deny }) {
      const { state: channel, home: server, now } = context
      const before = overridesOf(server, channel.id)
      const found = before.find(override => override.target_id === target_id)
      const override: Override = { target_id, type: kind, allow: flagsOf(allow), deny: flagsOf(deny) }
      const target = kind === "role" ? server.roles.get(target_id) : memberFacts.of(server).get(target_id)
      const access = requireManager(server, channel.id, user, now)
      if (!target) throw fail("member_or_role_not_found")
      if (user !== server.owner_id)
        requireRank(server, access.member, "position" in target ? target.position : rankOf(server, target))
      requireLoosenable(access, found, override)
      const changes = overrideChanges(found, override)
      if (found && Object.keys(changes).length === 0) return { reply: overrideObject(channel.id, found) }
      if (!found && (before.length >= limits.overridesPerChannel || isFull(server))) throw fail("override_limit")
      const after = [...before.filter(other => other.target_id !== target_id), override]
      const changesViews = changesViewing(found, override)
      const take = takeViewChange(server, { user, isLimited }, now, { changesViews, events: 0 })
      audit(
        { ...context, user, reason },
        found ? "OVERRIDE_UPDATE" : "OVERRIDE_CREATE",
        { type: "override", id: channel.id, name: channel.name },
        changes,
      )
      return {
        ...overriding(server, channel, [before, after], override, take),
        write: [putOverride({ ...override, channel_id: channel.id, server_id: server.id })],
        reply: overrideObject(channel.id, override),
      }
    },
  },

  deleteOverride: {
    needs: ({ user, target_id }) => [member(user), member(target_id)],
    turn(context, { user, reason, isLimited, target_id }) {
      const { state: channel, home: server, now } = context
      const before = overridesOf(server, channel.id)
      const found = before.find(override => override.target_id === target_id)
      const access = requireManager(server, channel.id, user, now)
      if (!found) throw fail("override_not_found")
      const gone = { user_id: target_id, roles: [] }
      const rank =
        found.type === "role"
          ? (server.roles.get(target_id)?.position ?? 0)
          : rankOf(server, memberFacts.of(server).get(target_id) ?? gone)
      if (user !== server.owner_id) requireRank(server, access.member, rank)
      requireLoosenable(access, found, undefined)
      const after = before.filter(other => other !== found)
      const changesViews = changesViewing(found, undefined)
      const take = takeViewChange(server, { user, isLimited }, now, { changesViews, events: 0 })
      audit(
        { ...context, user, reason },
        "OVERRIDE_DELETE",
        { type: "override", id: channel.id, name: channel.name },
        overrideChanges(found, undefined),
      )
      return {
        ...overriding(server, channel, [before, after], found, take),
        write: [deleteOverride({ channel_id: channel.id, target_id })],
        reply: { deleted: true },
      }
    },
  },

  eraseOverride: {
    turn({ state: channel, home: server }, { target_id }) {
      const before = overridesOf(server, channel.id)
      const found = before.find(override => override.type === "member" && override.target_id === target_id)
      if (!found) return { reply: { erased: false } }
      const after = before.filter(other => other !== found)
      return {
        ...overriding(server, channel, [before, after], found),
        write: [deleteOverride({ channel_id: channel.id, target_id })],
        reply: { erased: true },
      }
    },
  },
}

const overridesOf = (server: Readonlied<ServerState>, channel: Snowflake): readonly Override[] =>
  server.overrides.get(channel) ?? []

/** Whether all channels together have as many as a server may have. */
function isFull({ overrides }: Readonlied<ServerState>): boolean {
  let count = 0
  for (const ofChannel of overrides.values()) count += ofChannel.length
  return count >= limits.overridesPerServer
}

const overrideObject = (channel: Snowflake, { target_id, type, allow, deny }: Override): ShownOverride => ({
  channel_id: channel,
  target_id,
  type,
  allow: namesIn(allow),
  deny: namesIn(deny),
})

/** What a client's names mean. Who is an administrator is no matter of one channel. */
const flagsOf = (names: readonly string[]): PermissionMask =>
  maskOf(names.flatMap(name => permissionOf(name) ?? []).filter(permission => permission !== "administrator"))

/** As the audit log shows them, with whom they are about. */
function overrideChanges(before: Override | undefined, after: Override | undefined): Changes {
  const shown = (override: Override | undefined) =>
    override ? { ...override, allow: namesIn(override.allow), deny: namesIn(override.deny) } : null
  return changesOf(shown(before), shown(after), ["target_id", "type", "allow", "deny"])
}

/**
 * Who manages roles in the server may be kept from it in a channel, or do it in one channel only.
 */
function requireManager(server: Readonlied<ServerState>, channel: Snowflake, user: Snowflake, now: number): Access {
  const access = accessOf(server, channel, user, now)
  access.require("roles.manage")
  return access
}

/** Nobody allows others in a channel what they themselves are not allowed there. */
function requireLoosenable(access: Access, before: Override | undefined, after: Override | undefined): void {
  for (const permission of loosened(before, after)) access.require(permission)
}

/** The control entry changes who sees the channel; then those who see it now are told. */
function overriding(
  server: Readonlied<ServerState>,
  channel: Readonlied<ChannelState>,
  [before, after]: readonly [before: readonly Override[], after: readonly Override[]],
  { type, target_id }: Override,
  take?: (draft: ServerState) => void,
) {
  const shown = channelObject(channel)
  return {
    apply: (draft: ServerState) => {
      draft.overrides.set(channel.id, after)
      take?.(draft)
    },
    publish: [
      control(membersOf(server.id), {
        type: "overrides",
        server: server.id,
        channel: channel.id,
        shown,
        before,
        after,
      }),
      channelUpdate.to(viewersOf(server.id, channel.id), shown),
      ...voiceRechecks(
        server,
        ({ channel_id, user_id }) => channel_id === channel.id && (type === "role" || user_id === target_id),
      ),
    ],
  }
}
