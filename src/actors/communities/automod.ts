import type { AutomodRule } from "../../contract/communities/automod.ts"
import { fail } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { inOrder } from "../../domain/communities/automod.ts"
import {
  isWithinBounds,
  noteMeasured,
  requireSoundPatterns,
  unmeasured,
} from "../../domain/communities/automod-rules.ts"
import type { Measured } from "../../domain/communities/automod-texts.ts"
import { changesOf, type Changes } from "../../domain/communities/audit.ts"
import { secondsAt } from "../../std/clock.ts"
import type { MemberState, ServerState } from "../../domain/communities/servers.ts"
import { deleteAutomodRule, putAutomodRule } from "../../storage/communities/automod.ts"
import { requireMember, requirePermission } from "../shared/access.ts"
import { audit, type AuditContext, type AuditedTurn } from "../shared/audit.ts"
import { member } from "../shared/member-facts.ts"
import type { HomeEffects } from "../shared/effects.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import type { Need } from "../../runtime/facts.ts"
import type { ActorKind, LookUpFirst } from "../../runtime/actor.ts"

/**
 * Auto-moderation: what can be configured. The rules are part of the server's home, so every
 * message is judged by the rules of that moment (automod-judging.ts). They keep:
 *   AM3  A rule has no power that its author lacks: to kick, to ban, and over members of the
 *       same or a higher rank. An operator's rule has all of them; a member's rule does not get
 *       them by an operator who leaves what it looks for and what it does as they are.
 */
export interface AutomodCommands {
  listAutomodRules(input: Writer): AutomodRule[]
  readAutomodRule(input: Writer & { rule_id: Snowflake }): AutomodRule
  /** `config` and `actions` have been looked into, but for patterns: see domain/automod-rules.ts. */
  createAutomodRule(input: AuditContext & Writer & { rule: NewRule }): AutomodRule
  editAutomodRule(input: AuditContext & Writer & { rule_id: Snowflake; patch: Partial<NewRule> }): AutomodRule
  deleteAutomodRule(input: AuditContext & Writer & { rule_id: Snowflake }): { deleted: true }
}

/** Who sees and writes the rules. */
interface Writer {
  readonly user: Snowflake
  /** `user` is an operator of the service, who may do everything. */
  readonly isOperator?: boolean | undefined
}

export type NewRule = Omit<AutomodRule, "id" | "server_id" | "created_at" | "updated_at" | "created_by" | "updated_by">
type Server = Readonlied<ServerState>
/** As `Readonlied` makes them, rules are as they were: nobody changes one. */
export const rulesOf = (server: Server) => server.automod as readonly AutomodRule[]

const changing = [
  "name",
  "config",
  "actions",
  "applied_roles",
  "exempt_roles",
  "exempt_channels",
  "priority",
  "check_all",
  "enabled",
] as const

export const automodCommands: ActorKind<ServerState, ServerState, AutomodCommands>["commands"] = {
  listAutomodRules: {
    needs: writing,
    turn({ state: server }, input) {
      requireWriter(server, input)
      return { reply: [...rulesOf(server)] }
    },
  },

  readAutomodRule: {
    needs: writing,
    turn({ state: server }, { rule_id, ...input }) {
      requireWriter(server, input)
      return { reply: ruleOf(server, rule_id) }
    },
  },

  createAutomodRule: {
    needs: writing,
    turn(context, { user, isOperator = false, reason, rule: given }) {
      const { state: server, now, newId } = context
      const caller = requireWriter(server, { user, isOperator })
      if (caller) requirePowers(server, caller, given) // AM3
      requireTargets(server, given)
      const seconds = secondsAt(now)
      const made = { ...given, id: newId(), server_id: server.id }
      const rule: AutomodRule = {
        ...made,
        created_at: seconds,
        updated_at: seconds,
        created_by: user,
        updated_by: user,
      }
      const automod = inOrder([...rulesOf(server), rule])
      const unknown = measuring(server, user, context.answer, automod)
      if (unknown) return unknown
      requireSoundPatterns(rule)
      if (!isWithinBounds(automod)) throw fail("automod_limit")
      audit({ ...context, user, reason }, "AUTOMOD_RULE_CREATE", target(rule), changes(null, rule))
      return {
        apply: draft => {
          draft.automod = automod
        },
        write: [putAutomodRule(rule)],
        reply: rule,
      }
    },
  },

  editAutomodRule: {
    needs: writing,
    turn(context, { user, isOperator = false, reason, rule_id, patch }) {
      const { state: server, now } = context
      const caller = requireWriter(server, { user, isOperator })
      const before = ruleOf(server, rule_id)
      const patched: AutomodRule = { ...before, ...patch, updated_at: secondsAt(now) }
      if (caller) requirePowers(server, caller, patched) // AM3
      requireTargets(server, patch)
      const changed = changes(before, patched)
      if (Object.keys(changed).length === 0) return { reply: before }
      const isTheirs = !isOperator || "config" in changed || "actions" in changed // AM3
      const rule = isTheirs ? { ...patched, updated_by: user } : patched
      const automod = inOrder([...rulesOf(server).filter(({ id }) => id !== rule_id), rule])
      const unknown = measuring(server, user, context.answer, automod)
      if (unknown) return unknown
      requireSoundPatterns(rule)
      if (!isWithinBounds(automod)) throw fail("automod_limit")
      audit({ ...context, user, reason }, "AUTOMOD_RULE_UPDATE", target(rule), changed)
      return {
        apply: draft => {
          draft.automod = automod
        },
        write: [putAutomodRule(rule)],
        reply: rule,
      }
    },
  },

  deleteAutomodRule: {
    needs: writing,
    turn(context, { user, isOperator, reason, rule_id }) {
      const { state: server } = context
      requireWriter(server, { user, isOperator })
      const rule = ruleOf(server, rule_id)
      audit({ ...context, user, reason }, "AUTOMOD_RULE_DELETE", target(rule), changes(rule, null))
      return {
        apply: draft => {
          draft.automod = rulesOf(server).filter(({ id }) => id !== rule_id)
        },
        write: [deleteAutomodRule({ id: rule_id })],
        reply: { deleted: true },
      }
    },
  },
}

/** The lookup that measures patterns, as turns call it. */
export const patternLookup = "patterns"

/** Of which rules, and who answers for the time that it takes: the owner and who changes them. */
export interface PatternQuestion {
  readonly owner: Snowflake
  readonly author: Snowflake
  readonly rules: readonly AutomodRule[]
}

/** What rules are asked about, and what a thread found; undefined: it had no time. */
export interface PatternAnswer {
  readonly rules: readonly AutomodRule[]
  readonly found: readonly Measured[] | undefined
}

/** What is asked before rules can be decided about; undefined: their patterns are known. */
function measuring(
  { owner_id: owner }: Server,
  author: Snowflake,
  answer: unknown,
  automod: readonly AutomodRule[],
): LookUpFirst | undefined {
  if (answer !== undefined) {
    const { rules: asked, found } = answer as PatternAnswer
    if (!found) throw fail("unavailable")
    noteMeasured(asked, found)
  }
  // The home may have been loaded again meanwhile.
  const rules = unmeasured(automod)
  const question: PatternQuestion = { owner, author, rules }
  return rules.length > 0 ? { lookUp: patternLookup, question } : undefined
}

function writing({ user, isOperator }: Writer): readonly Need<ServerState>[] {
  return isOperator ? [] : [member(user)]
}

/** The caller's membership; undefined: an operator, who has none. */
function requireWriter(server: Server, { user, isOperator }: Writer): Readonlied<MemberState> | undefined {
  if (isOperator) return undefined
  const caller = requireMember(server, user)
  requirePermission(server, caller, "server.automod")
  return caller
}

function ruleOf(server: Server, id: Snowflake): AutomodRule {
  const rule = rulesOf(server).find(rule => rule.id === id)
  if (!rule) throw fail("automod_rule_not_found")
  return rule
}

/** AM3 */
function requirePowers(server: Server, caller: Readonlied<MemberState>, { actions }: Pick<AutomodRule, "actions">) {
  for (const { action_type } of actions) {
    if (action_type === "kick_user") requirePermission(server, caller, "members.kick")
    if (action_type === "ban_user") requirePermission(server, caller, "members.ban")
  }
}

function requireTargets(server: Server, rule: Partial<NewRule>): void {
  const { applied_roles = [], exempt_roles = [], exempt_channels = [] } = rule
  const isKnown =
    [...applied_roles, ...exempt_roles].every(role => server.roles.has(role)) &&
    exempt_channels.every(channel => server.channels.has(channel))
  if (!isKnown) throw fail("automod_target_not_found")
}

/**
 * What the end of a role or a channel does to the rules that name it. A rule that held for those
 * with this role alone is switched off: it was not written for everybody.
 */
export function withoutTargets(
  server: Server,
  targets: ReadonlySet<Snowflake>,
  by: AuditContext,
  turn: AuditedTurn,
): Pick<HomeEffects, "apply" | "write"> {
  const left = (ids: readonly Snowflake[]) => ids.filter(id => !targets.has(id))
  const changed = rulesOf(server).flatMap(before => {
    const { applied_roles, exempt_roles, exempt_channels } = before
    if (![applied_roles, exempt_roles, exempt_channels].some(ids => ids.some(id => targets.has(id)))) return []
    const after: AutomodRule = {
      ...before,
      applied_roles: left(applied_roles),
      exempt_roles: left(exempt_roles),
      exempt_channels: left(exempt_channels),
      updated_at: secondsAt(turn.now),
    }
    if (after.applied_roles.length === 0 && applied_roles.length > 0) after.enabled = false
    return [{ before, after }]
  })
  const replaced = new Map(changed.map(({ after }) => [after.id, after]))
  for (const { before, after } of changed)
    audit({ ...turn, ...by }, "AUTOMOD_RULE_UPDATE", target(after), changes(before, after))
  return {
    apply(draft) {
      if (replaced.size > 0) draft.automod = rulesOf(server).map(rule => replaced.get(rule.id) ?? rule)
    },
    write: changed.map(({ after }) => putAutomodRule(after)),
  }
}

const target = ({ id, name }: AutomodRule) => ({ type: "automod_rule", id, name }) as const

/** Words and patterns can be very many; the log says that they changed. */
function changes(before: AutomodRule | null, after: AutomodRule | null): Changes {
  const shown = (rule: AutomodRule | null) => rule && { ...rule, config: brief(rule.config) }
  const changed = changesOf(shown(before), shown(after), changing)
  if (before && after && !("config" in changed) && Object.keys(changesOf(before, after, ["config"])).length > 0)
    return { ...changed, config: { old: brief(before.config), new: brief(after.config) } }
  return changed
}

const brief = (config: AutomodRule["config"]) =>
  Object.fromEntries(
    Object.entries(config).map(([key, value]) => {
      const count = typeof value === "object" && value !== null && Object.keys(value).length
      return count ? [key, { count }] : [key, value]
    }),
  )
