import type { AutomodRule, AutomodViolation, ClassifierBackend } from "../../contract/communities/automod.ts"
import { fail } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { alertModerators } from "../../contract/core/jobs.ts"
import { limits } from "../../contract/core/limits.ts"
import {
  consequencesOf,
  excerpt,
  judge,
  sanctions,
  shortened,
  type Broken,
  type Consequences,
  type Decided,
  type Refusal,
  type Scores,
} from "../../domain/communities/automod.ts"
import { recentPost, withPost, type RecentPost } from "../../domain/communities/automod-spam.ts"
import { secondsAt } from "../../std/clock.ts"
import { holds, rankOf } from "../../domain/core/permissions.ts"
import { msOf, firstIdAt } from "../../domain/core/snowflake.ts"
import type { MemberState, ServerState } from "../../domain/communities/servers.ts"
import type { ChannelState } from "../../domain/core/channels.ts"
import type { MessageState } from "../../domain/messages/messages.ts"
import type { Actor } from "../../domain/accounts/accounts.ts"
import { insertAutomodViolation, trimAutomodViolations } from "../../storage/communities/automod.ts"
import { auditEntry, memberTarget, type AuditContext } from "../shared/audit.ts"
import { mayBeTimedOut, memberChanges, timingOut } from "../communities/members.ts"
import { banning, removal } from "../communities/membership.ts"
import { member, memberFacts } from "../shared/member-facts.ts"
import { authorKey, byChannel } from "./message-facts.ts"
import { combine, type HomeEffects } from "../shared/effects.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import { defineMemory, type Need } from "../../runtime/facts.ts"
import { defineFact } from "../shared/facts.ts"
import type { Effects, Moment, TurnContext } from "../../runtime/actor.ts"
import { rulesOf } from "../communities/automod.ts"

/**
 * Auto-moderation: the turn that decides about a message judges it. It keeps:
 *   AM1  The consequences of a verdict are committed with it: the refusal or the message, the
 *       violation, and removals.
 *   AM2  The owner, administrators and members who may edit the rules are exempt from them.
 */
type Server = Readonlied<ServerState>

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
const recentPosts = (channel: Snowflake, author: Snowflake): Need<ServerState> =>
  recentPostsFacts.need(authorKey(channel, author))

/** What an HTTP handler can ask classifiers, and what those it has asked have said. */
export interface Classified {
  readonly classifiers?: readonly ClassifierBackend[] | undefined
  readonly scores?: Readonly<Partial<Record<ClassifierBackend, Scores>>> | undefined
}

/** Nothing is decided before these have said what they think of a text. */
interface Unasked {
  readonly unasked: readonly ClassifierBackend[]
  readonly content: string
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

/**
 * AM3: a rule does nothing to a user that its writer, with their present permissions, may not do to
 *      them; the rule of a writer who left does nothing.
 */
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
 * The turn in which a user posts or edits: the verdict of the rules and the effects of the message
 * come together (AM1). `said` is called if the message is not refused, with its id, unless it is
 * the one that is edited.
 */
export function moderating<Reply>(
  { state: channel, home: server, now, newId }: TurnContext<ServerState, ChannelState>,
  judged: Judged,
  said: () => HomeEffects & { readonly about?: Snowflake; readonly reply: Reply },
  refused: (refusal: Refusal) => Partial<HomeEffects> = () => ({}),
): Effects<ServerState, Reply | Held> {
  const subject = { server, channel: channel.id, now, newId, ...judged }
  const verdict = judging(subject)
  if (verdict && "unasked" in verdict) return { reply: verdict }
  if (verdict?.consequences.isRefused) {
    const refusal = refusalOf(verdict)
    return { ...combine(refused(refusal), sanctioning(subject, verdict, judged.edited)), reply: { refused: refusal } }
  }
  // The message's id is made before those of what follows: a ban for it may delete the message with
  // the rest.
  const { about = judged.edited, reply, ...parts } = said()
  return { ...combine(parts, verdict && sanctioning(subject, verdict, about)), reply }
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
  // A handler that does not understand the answer is told by the refusal alone.
  if (consequences.isRefused && classified.classifiers === undefined) throw blocked(refusalOf({ broken, consequences }))
  return { broken, consequences }
}

const refusalOf = ({ broken, consequences }: Sanction): Refusal => ({
  violations: broken.map(({ rule }) => rule.rule_type),
  ...(consequences.reason !== undefined && { reason: consequences.reason }),
})

/** What the author of a refused message is told. */
export const blocked = ({ violations, reason }: Refusal) =>
  fail("message_blocked", {
    ...(reason !== undefined && { message: `Message blocked by auto-moderation: ${reason}` }),
    extra: { code: "MESSAGE_BLOCKED", violations },
  })

/**
 * AM1: everything that a verdict entails, but for the message itself. `message_id`: of the message
 *      that it is about, if there is one.
 */
function sanctioning(
  { server, channel, now, newId, author, caller }: Judging,
  { broken, consequences }: Sanction,
  message_id: Snowflake | undefined,
): HomeEffects {
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

  /** The end of the author's membership, or a time-out. */
  function ending(): HomeEffects | undefined {
    const { ban, kick, timeout, timeoutSeconds } = consequences
    const moment = { now, newId }
    if (ban) {
      const { delete_message_days: days = 0 } = ban.action.metadata
      const banned = { target_id: author.id, username: author.username, days: days as number }
      return banning(server, banned, contextOf(ban), moment)
    }
    if (kick) {
      const noted = auditEntry(
        { ...moment, server: server.id, ...contextOf(kick) },
        "MEMBER_KICK",
        memberTarget(author.id),
      )
      return removal(server, author.id, now, noted)
    }
    if (!timeout || timeoutSeconds === null || !mayBeTimedOut(server, caller)) return undefined
    const until = secondsAt(now) + timeoutSeconds
    const by = contextOf(timeout)
    const after = { ...caller, timeout_until: until, timeout_reason: timeout.action.reason }
    const about = memberTarget(author.id)
    const noted = auditEntry(
      { ...moment, server: server.id, ...by },
      "MEMBER_UPDATE",
      about,
      memberChanges(caller, after),
    )
    return timingOut(server, caller, until, timeout.action.reason, noted, author)
  }
}

/**
 * A rule acts in the name of the user who wrote its present form; the log says that it was the
 * rule.
 */
function contextOf({ rule, action }: Decided): AuditContext {
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
