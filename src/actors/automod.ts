import type { AutomodRule, AutomodViolation, ClassifierBackend } from "../contract/automod.ts"
import { fail } from "../contract/errors.ts"
import type { Snowflake } from "../contract/fields.ts"
import { alertModerators } from "../contract/jobs.ts"
import { limits } from "../contract/limits.ts"
import {
  consequencesOf,
  excerpt,
  inOrder,
  judge,
  sanctions,
  shortened,
  type Broken,
  type Consequences,
  type Decided,
  type Refusal,
  type Scores,
} from "../domain/automod.ts"
import { recentPost, withPost, type RecentPost } from "../domain/automod-spam.ts"
import { isWithinBounds } from "../domain/automod-rules.ts"
import { changesOf, type Changes } from "../domain/audit.ts"
import { secondsAt } from "../domain/clock.ts"
import { holds, rankOf } from "../domain/permissions.ts"
import { msOf, firstIdAt } from "../domain/snowflake.ts"
import type { Actor, ChannelState, MemberState, MessageState, ServerState } from "../domain/states.ts"
import { deleteAutomodRule, insertAutomodViolation, putAutomodRule, trimAutomodViolations } from "../storage/automod.ts"
import { requireMember, requirePermission } from "./access.ts"
import { audited, memberTarget, type Deed } from "./audit.ts"
import { mayBeTimedOut, memberChanges, timingOut } from "./members.ts"
import { banning, removal } from "./membership.ts"
import { member, memberFacts } from "./communities/member-facts.ts"
import { authorKey, byChannel } from "./messages/message-facts.ts"
import { together, type Parts } from "./parts.ts"
import type { Readonlied } from "../domain/core/readonlied.ts"
import { defineFact, defineMemory, type Need } from "./runtime/facts.ts"
import type { ActorKind, Effects, Moment, TurnContext } from "./runtime/actor.ts"

/**
 * Auto-moderation. Its rules are part of the server's home, so every message is judged by the rules of that moment, in the turn
 * that decides about it. It keeps:
 *   AM1  What a verdict entails is committed with the verdict: the refusal or the message, what is noted, and who goes.
 *   AM2  The owner, administrators and whoever may write the rules are not judged by them.
 *   AM3  Nobody gives the rules a power that he has not himself: to kick, to ban, and over whoever ranks as high as he does.
 */
export interface AutomodCommands {
  listAutomodRules(input: { user: Snowflake }): AutomodRule[]
  readAutomodRule(input: { user: Snowflake; rule_id: Snowflake }): AutomodRule
  /** `config` and `actions` have been looked into, see domain/automod-rules.ts. */
  createAutomodRule(input: Deed & { rule: NewRule }): AutomodRule
  editAutomodRule(input: Deed & { rule_id: Snowflake; patch: Partial<NewRule> }): AutomodRule
  deleteAutomodRule(input: Deed & { rule_id: Snowflake }): { deleted: true }
}

type NewRule = Omit<AutomodRule, "id" | "server_id" | "created_at" | "updated_at" | "created_by" | "updated_by">
type Server = Readonlied<ServerState>
/** As `Readonlied` makes them, rules are as they were: nobody changes one. */
const rulesOf = (server: Server) => server.automod as readonly AutomodRule[]

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

const recentPostsFacts = defineFact<ServerState, readonly RecentPost[]>({
  keep: 1_000,
  async load(storage, _server, keys, _home, now) {
    const found = new Map<string, RecentPost[]>()
    const since = firstIdAt(now - limits.automod.windowSeconds * 1000)
    for (const [channel, authors] of byChannel(keys))
      for (const { author_id, id, content } of await storage.automod.recentPosts(
        channel,
        authors,
        since,
        limits.automod.postsRemembered,
      )) {
        const key = authorKey(channel, author_id)
        const post = recentPost(id, msOf(id), content)
        const posts = found.get(key)
        if (posts) posts.push(post)
        else found.set(key, [post])
      }
    return found
  },
})
export const recentPosts = (channel: Snowflake, author: Snowflake): Need<ServerState> =>
  recentPostsFacts.need(authorKey(channel, author))

export const automodCommands: ActorKind<ServerState, ServerState, AutomodCommands>["commands"] = {
  listAutomodRules: {
    needs: ({ user }) => [member(user)],
    turn({ state: server }, { user }) {
      requireWriter(server, user)
      return { reply: [...rulesOf(server)] }
    },
  },

  readAutomodRule: {
    needs: ({ user }) => [member(user)],
    turn({ state: server }, { user, rule_id }) {
      requireWriter(server, user)
      return { reply: ruleOf(server, rule_id) }
    },
  },

  createAutomodRule: {
    needs: ({ user }) => [member(user)],
    turn({ state: server, now, newId }, { user, reason, rule: given }) {
      const caller = requireWriter(server, user)
      requirePowers(server, caller, given) // AM3
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
      if (!isWithinBounds(automod)) throw fail("automod_limit")
      return {
        apply: draft => {
          draft.automod = automod
        },
        write: [
          putAutomodRule(rule),
          audited(
            { now, newId },
            server.id,
            { user, reason },
            "AUTOMOD_RULE_CREATE",
            target(rule),
            changes(null, rule),
          ),
        ],
        reply: rule,
      }
    },
  },

  editAutomodRule: {
    needs: ({ user }) => [member(user)],
    turn({ state: server, now, newId }, { user, reason, rule_id, patch }) {
      const caller = requireWriter(server, user)
      const before = ruleOf(server, rule_id)
      const rule: AutomodRule = { ...before, ...patch, updated_at: secondsAt(now), updated_by: user }
      requirePowers(server, caller, rule) // AM3
      requireTargets(server, patch)
      const changed = changes(before, rule)
      if (Object.keys(changed).length === 0) return { reply: before }
      const automod = inOrder([...rulesOf(server).filter(({ id }) => id !== rule_id), rule])
      if (!isWithinBounds(automod)) throw fail("automod_limit")
      return {
        apply: draft => {
          draft.automod = automod
        },
        write: [
          putAutomodRule(rule),
          audited({ now, newId }, server.id, { user, reason }, "AUTOMOD_RULE_UPDATE", target(rule), changed),
        ],
        reply: rule,
      }
    },
  },

  deleteAutomodRule: {
    needs: ({ user }) => [member(user)],
    turn({ state: server, now, newId }, { user, reason, rule_id }) {
      requireWriter(server, user)
      const rule = ruleOf(server, rule_id)
      return {
        apply: draft => {
          draft.automod = rulesOf(server).filter(({ id }) => id !== rule_id)
        },
        write: [
          deleteAutomodRule({ id: rule_id }),
          audited(
            { now, newId },
            server.id,
            { user, reason },
            "AUTOMOD_RULE_DELETE",
            target(rule),
            changes(rule, null),
          ),
        ],
        reply: { deleted: true },
      }
    },
  },
}

function requireWriter(server: Server, user: Snowflake): Readonlied<MemberState> {
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
 * What the end of a role or a channel does to the rules that name it. A rule that held for those with this role alone is
 * switched off: it was not written for everybody.
 */
export function withoutTarget(
  server: Server,
  target_id: Snowflake,
  deed: Deed,
  { now, newId }: Moment,
): Pick<Parts, "apply" | "write"> {
  const left = (ids: readonly Snowflake[]) => ids.filter(id => id !== target_id)
  const changed = rulesOf(server).flatMap(before => {
    const { applied_roles, exempt_roles, exempt_channels } = before
    if (![applied_roles, exempt_roles, exempt_channels].some(ids => ids.includes(target_id))) return []
    const after: AutomodRule = {
      ...before,
      applied_roles: left(applied_roles),
      exempt_roles: left(exempt_roles),
      exempt_channels: left(exempt_channels),
      updated_at: secondsAt(now),
    }
    if (after.applied_roles.length === 0 && applied_roles.length > 0) after.enabled = false
    return [{ before, after }]
  })
  const replaced = new Map(changed.map(({ after }) => [after.id, after]))
  return {
    apply(draft) {
      if (replaced.size > 0) draft.automod = rulesOf(server).map(rule => replaced.get(rule.id) ?? rule)
    },
    write: changed.flatMap(({ before, after }) => [
      putAutomodRule(after),
      audited({ now, newId }, server.id, deed, "AUTOMOD_RULE_UPDATE", target(after), changes(before, after)),
    ]),
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

/** What a door can ask classifiers, and what those it has asked have said. Doors of the version before leave it out. */
export interface Classified {
  readonly classifiers?: readonly ClassifierBackend[] | undefined
  readonly scores?: Readonly<Partial<Record<ClassifierBackend, Scores>>> | undefined
}

/** Nothing is decided before these have said what they think of a text. */
interface Unasked {
  readonly unasked: readonly ClassifierBackend[]
  /** The text; homes of the version before leave it out. */
  readonly content?: string
}

/** Instead of a message: it was refused, or it waits. */
export type Held = { readonly refused: Refusal } | Unasked

/** Facts that judging a message takes. */
export function judgingNeeds(server: Server, channel: Snowflake, author: Snowflake): readonly Need<ServerState>[] {
  const rules = rulesOf(server).filter(({ enabled }) => enabled)
  const isCounted = rules.some(({ rule_type }) => rule_type === "message_spam")
  const writers = new Set(rules.filter(isHarsh).map(({ updated_by }) => updated_by))
  return [...(isCounted ? [recentPosts(channel, author)] : []), ...[...writers].map(member)]
}

const isHarsh = ({ actions }: AutomodRule) => actions.some(({ action_type }) => sanctions.has(action_type))

/** AM3: a rule does to nobody what its writer, as he is now, may not do to him; one who is gone may do nothing. */
function spares(server: Server, { updated_by }: AutomodRule, author: Readonlied<MemberState>): boolean {
  const writer = memberFacts.of(server).get(updated_by)
  return !writer || rankOf(server, author) >= rankOf(server, writer)
}

/** What somebody wants to say. */
interface Judged {
  readonly author: Actor
  readonly caller: Readonlied<MemberState>
  /** All that it says. */
  readonly content: string
  /** Its text alone, where there may be more. */
  readonly text?: string
  /** The message that is edited. */
  readonly edited?: Snowflake
  readonly classified: Classified
}

interface Judging extends Judged, Moment {
  readonly server: Server
  readonly channel: Snowflake
}

/**
 * The turn in which somebody says something: what the rules make of it comes with what becomes of it (AM1). `said` is asked if it is
 * not refused, with the message that it is about, unless that is the one that is edited.
 */
export function moderating<Reply>(
  { state: channel, home: server, now, newId }: TurnContext<ServerState, ChannelState>,
  judged: Judged,
  said: () => Parts & { readonly about?: Snowflake; readonly reply: Reply },
  refused: (refusal: Refusal) => Partial<Parts> = () => ({}),
): Effects<ServerState, Reply | Held> {
  const subject = { server, channel: channel.id, now, newId, ...judged }
  const verdict = judging(subject)
  if (verdict && "unasked" in verdict) return { reply: verdict }
  if (verdict?.consequences.isRefused) {
    const refusal = refusalOf(verdict)
    return { ...together(refused(refusal), sanctioning(subject, verdict, judged.edited)), reply: { refused: refusal } }
  }
  // Its id is minted before those of what follows: who is banned for it may lose it with the rest.
  const { about = judged.edited, reply, ...parts } = said()
  return { ...together(parts, verdict && sanctioning(subject, verdict, about)), reply }
}

interface Sanction {
  readonly consequences: Consequences
  readonly broken: readonly Broken[]
}

/** What the rules make of a message; undefined: nothing. */
function judging(subject: Judging): Sanction | Unasked | undefined {
  const { server, channel, now, author, caller, content, text, edited, classified } = subject
  if (server.automod.length === 0 || holds(server, caller, "server.automod")) return undefined // AM2
  const { broken, unasked } = judge(rulesOf(server), {
    content,
    text,
    channel_id: channel,
    roles: caller.roles,
    edited,
    recent: recentPostsFacts.of(server).get(authorKey(channel, author.id)) ?? [],
    classifiers: classified.classifiers ?? [],
    scores: classified.scores ?? {},
    now,
  })
  if (unasked.length > 0) return { unasked, content }
  if (broken.length === 0) return undefined
  const consequences = consequencesOf(broken, rule => spares(server, rule, caller))
  // A door that does not understand the answer is told by the refusal alone.
  if (consequences.isRefused && classified.classifiers === undefined) throw blocked(refusalOf({ broken, consequences }))
  return { broken, consequences }
}

const refusalOf = ({ broken, consequences }: Sanction): Refusal => ({
  violations: broken.map(({ rule }) => rule.rule_type),
  ...(consequences.reason !== undefined && { reason: consequences.reason }),
})

/** What the author of a message that is refused is told. */
export const blocked = ({ violations, reason }: Refusal) =>
  fail("message_blocked", {
    ...(reason !== undefined && { message: `Message blocked by auto-moderation: ${reason}` }),
    extra: { code: "MESSAGE_BLOCKED", violations },
  })

/** AM1: everything that a verdict entails, but for the message itself. `message_id`: of the message that it is about, if there is one. */
function sanctioning(
  { server, channel, now, newId, author, caller }: Judging,
  { broken, consequences }: Sanction,
  message_id: Snowflake | undefined,
): Parts {
  const alertKey = (rule: Snowflake) => `${rule}:${author.id}`
  const alerting = new Set(
    consequences.alerts.flatMap(({ rule }) => {
      const before = alerts.of(server).get(alertKey(rule.id))
      return before === undefined || before <= now - alertEvery ? [rule.id] : []
    }),
  )
  const noted = broken.map(one => violationOf(one, consequences))
  const told = noted.filter(({ rule_id }) => alerting.has(rule_id))
  const end = ending()
  return {
    apply(draft) {
      for (const rule of alerting) remember(alerts.of(draft), alertKey(rule), now)
      end?.apply(draft)
    },
    write: [
      ...noted.map(violation => insertAutomodViolation(violation)),
      // Now and then, by the time that an id bears.
      ...(noted.some(({ id }) => msOf(id) % trimEvery === 0) ? [trimAutomodViolations({ server_id: server.id })] : []),
      ...(end?.write ?? []),
    ],
    publish: [
      ...(end?.publish ?? []),
      ...told.map(({ id }) =>
        alertModerators.at({ server_id: server.id, violation_id: id }, { key: `alert:${server.id}:${id}` }),
      ),
    ],
  }

  function violationOf({ rule, matched, severity, metadata }: Broken, { timeout, kick, ban }: Consequences) {
    const done = spares(server, rule, caller) ? {} : { timeout_user: timeout, kick_user: kick, ban_user: ban }
    const types = rule.actions.map(({ action_type }) => action_type)
    const violation: AutomodViolation = {
      id: newId(),
      server_id: server.id,
      user_id: author.id,
      channel_id: channel,
      rule_id: rule.id,
      rule_type: rule.rule_type,
      matched_content: excerpt(matched),
      severity,
      actions_taken: [...new Set(types)].filter(type =>
        type === "alert_moderators" ? alerting.has(rule.id) : !sanctions.has(type) || done[type as keyof typeof done],
      ),
      created_at: secondsAt(now),
      metadata: { ...metadata, ...(message_id !== undefined && { message_id }) },
    }
    return violation
  }

  /** The end of his membership, or of what he may do for a while. */
  function ending(): Parts | undefined {
    const { ban, kick, timeout, timeoutSeconds } = consequences
    const moment = { now, newId }
    if (ban) {
      const { delete_message_days: days = 0 } = ban.action.metadata
      const banned = { target_id: author.id, username: author.username, days: days as number }
      return banning(server, banned, deedOf(ban), moment)
    }
    if (kick) {
      const noted = audited(moment, server.id, deedOf(kick), "MEMBER_KICK", memberTarget(author.id))
      return removal(server, author.id, now, noted)
    }
    if (!timeout || timeoutSeconds === null || !mayBeTimedOut(server, caller)) return undefined
    const until = secondsAt(now) + timeoutSeconds
    const deed = deedOf(timeout)
    const after = { ...caller, timeout_until: until, timeout_reason: timeout.action.reason }
    const about = memberTarget(author.id)
    const noted = audited(moment, server.id, deed, "MEMBER_UPDATE", about, memberChanges(caller, after))
    return timingOut(server, caller, until, timeout.action.reason, noted, author)
  }
}

/** What a rule does is done in the name of whoever wrote it as it is; the log says that it was the rule. */
function deedOf({ rule, action }: Decided): Deed {
  const reason = `Auto-moderation: ${rule.name}${action.reason ? `: ${action.reason}` : ""}`
  return { user: rule.updated_by, reason: shortened(reason, limits.banReason) }
}

/** When moderators were last told of a user by a rule, in Unix milliseconds. The latest last. */
const alerts = defineMemory<ServerState, Map<string, number>>(() => new Map())

/** Milliseconds for which moderators are not told again of the same user by the same rule. */
const alertEvery = 60_000
const trimEvery = 64
/** Of what nothing but memory knows, the oldest are forgotten. */
const remembered = 1_000
export function remember<T>(map: Map<string, T>, key: string, value: T): void {
  map.delete(key)
  map.set(key, value)
  for (const oldest of map.keys()) {
    if (map.size <= remembered) break
    map.delete(oldest)
  }
}

/** Keeps what rules count by current, where somebody has asked for it. */
export function countPost(draft: ServerState, { id, channel_id, author_id, content }: MessageState): void {
  const key = authorKey(channel_id, author_id)
  const posts = recentPostsFacts.of(draft).get(key)
  if (posts === undefined || content === null) return
  recentPostsFacts.of(draft).set(key, withPost(posts ?? [], recentPost(id, msOf(id), content)))
}
