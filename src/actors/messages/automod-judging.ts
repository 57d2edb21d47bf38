import type { AutomodRule, AutomodViolation, ClassifierBackend } from "../../contract/communities/automod.ts"
import { fail } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { alertModerators, classifyMessage } from "../../contract/core/jobs.ts"
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
  type Verdict,
} from "../../domain/communities/automod.ts"
import type { RecentPost } from "../../domain/communities/automod-match.ts"
import type { Moderation } from "../../domain/service/server-status.ts"
import { recentPost, withPost } from "../../domain/communities/automod-spam.ts"
import type { TextAnswer, TextQuestion } from "../../domain/communities/automod-texts.ts"
import { secondsAt } from "../../std/clock.ts"
import { holds, rankOf, type Holder } from "../../domain/core/permissions.ts"
import { msOf, firstIdAt, isOperatorId } from "../../domain/core/snowflake.ts"
import type { MemberState, ServerState } from "../../domain/communities/servers.ts"
import type { ChannelState } from "../../domain/core/channels.ts"
import type { MessageState } from "../../domain/messages/messages.ts"
import type { Actor } from "../../domain/accounts/accounts.ts"
import { insertAutomodViolation, trimAutomodViolations } from "../../storage/communities/automod.ts"
import { audit, memberTarget, type AuditContext } from "../shared/audit.ts"
import { mayBeTimedOut, memberChanges, timingOut } from "../communities/members.ts"
import { banning, kicked } from "../communities/membership.ts"
import { member, memberFacts } from "../shared/member-facts.ts"
import { authorKey, byChannel } from "./message-facts.ts"
import { webhooksSuspension } from "./webhook-facts.ts"
import { combine, type HomeEffects } from "../shared/effects.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import { defineMemory, type Need } from "../../runtime/facts.ts"
import { defineFact } from "../shared/facts.ts"
import type { Effects, LookUpFirst, TurnContext } from "../../runtime/actor.ts"
import { rulesOf } from "../communities/automod.ts"

/**
 * Auto-moderation: the turn that decides about a message judges it. It keeps:
 *   AM1  The consequences of a verdict are committed with it: the refusal or the message, the
 *       violation, and removals.
 *   AM2  The owner and administrators are exempt from the rules.
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

/** What operators have set, as the worker that was asked knows it. */
export interface Moderated {
  /** Left out: rules are evaluated, and there is no classifier. */
  readonly moderation?: Moderation | undefined
  /** There: who asks understands `Held`. A worker of the version before says here whom it can ask. */
  readonly classifiers?: readonly ClassifierBackend[] | undefined
}

/** Instead of a message: it was refused. */
export interface Held {
  readonly refused: Refusal
}

const nothing: readonly Need<ServerState>[] = []

/** Facts that judging a message takes. */
export function judgingNeeds(server: Server, channel: Snowflake, author: Snowflake): readonly Need<ServerState>[] {
  if (server.automod.length === 0) return nothing
  const rules = rulesOf(server).filter(({ enabled }) => enabled)
  const isCounted = rules.some(({ rule_type }) => rule_type === "message_spam")
  const writers = new Set(
    rules.flatMap(rule => (isHarsh(rule) && !isOperatorId(rule.updated_by) ? [rule.updated_by] : [])),
  )
  const kicks = rules.some(({ actions }) => actions.some(({ action_type }) => action_type === "kick_user"))
  return [
    ...(isCounted ? [recentPosts(channel, author)] : []),
    ...[...writers].map(member),
    ...(kicks ? webhooksSuspension.needs : []),
  ]
}

const isHarsh = ({ actions }: AutomodRule) => actions.some(({ action_type }) => sanctions.has(action_type))

/**
 * AM3: a rule does nothing to a user that its writer, with their present permissions, may not do to
 *      them; the rule of a writer who left does nothing. That of an operator may do everything.
 */
export function spares(server: Server, { updated_by }: AutomodRule, author: Holder): boolean {
  if (isOperatorId(updated_by)) return false
  const writer = memberFacts.of(server).get(updated_by)
  return !writer || rankOf(server, author) >= rankOf(server, writer)
}

/** Who has left has no role. */
export const holderOf = ({ id }: Actor, caller: Readonlied<MemberState> | undefined): Holder =>
  caller ?? { user_id: id, roles: [] }

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
  readonly moderated: Moderated
}

/** Who it is, and where. */
interface Subject {
  readonly turn: TurnContext<ServerState, ChannelState>
  readonly server: Server
  readonly channel: Snowflake
  readonly author: Actor
  /** Undefined: they have left meanwhile. */
  readonly caller: Readonlied<MemberState> | undefined
}

type Judging = Subject & Judged

/** The lookup that judges texts, as turns call it. */
export const textLookup = "texts"
/** How often a text is judged outside of turns for one message: each time, the rules may have changed meanwhile. */
const maxQuestions = 3

/**
 * The turn in which a user posts or edits: the verdict of the rules and the effects of the message
 * come together (AM1). `said` is called if the message is not refused, with its id, unless it is
 * the one that is edited.
 */
export function moderating<Reply>(
  turn: TurnContext<ServerState, ChannelState>,
  judged: Judged,
  said: () => HomeEffects & {
    readonly about?: Snowflake
    readonly reply: Reply
    readonly keptReply?: Reply | undefined
  },
  refused: (refusal: Refusal) => Partial<HomeEffects> = () => ({}),
): Effects<ServerState, Reply | Held> | LookUpFirst {
  // Most servers have no rules.
  if (turn.home.automod.length === 0 || judged.moderated.moderation?.isOff) return said()
  const subject = { turn, server: turn.home, channel: turn.state.id, ...judged }
  const verdict = judging(subject)
  if (verdict && "lookUp" in verdict) return verdict
  if (verdict?.consequences.isRefused) {
    const refusal = refusalOf(verdict)
    return { ...combine(refused(refusal), sanctioning(subject, verdict, judged.edited)), reply: { refused: refusal } }
  }
  // The message's id is made before those of what follows: a ban for it may delete the message with
  // the rest.
  const { about = judged.edited, reply, keptReply, ...parts } = said()
  if (!verdict) return { ...parts, reply, keptReply }
  return {
    ...combine(
      parts,
      sanctioning(subject, verdict, about),
      about === undefined ? undefined : classifying(subject, verdict, about),
    ),
    reply,
    keptReply,
  }
}

export interface Sanction {
  readonly consequences: Consequences
  readonly broken: readonly Broken[]
  readonly unjudged: Verdict["unjudged"]
}
type Judgement = Sanction & Pick<Verdict, "later">

/** What asks classifiers about a message once it is stored: nobody waits for them. */
function classifying(
  { turn, server, channel, author }: Judging,
  { later }: Judgement,
  message_id: Snowflake,
): Partial<HomeEffects> | undefined {
  if (later.length === 0) return undefined
  const asked = {
    server_id: server.id,
    owner_id: server.owner_id,
    channel_id: channel,
    message_id,
    author_id: author.id,
    rule_ids: later.map(({ id }) => id),
    since: turn.now,
  }
  // A message is asked about again when it is edited.
  return { publish: [classifyMessage.at(asked, { key: `classify:${turn.newId()}` })] }
}

/** What the rules make of a message; undefined: nothing. */
function judging(subject: Judging): Judgement | LookUpFirst | undefined {
  const { turn, server, channel, author, caller, content, text, edited, moderated } = subject
  const answer = turn.answer as TextAnswer | undefined
  if (holds(server, caller, "administrator")) return undefined // AM2
  // The message may have got other embeds meanwhile.
  const found = answer?.content === content && answer.text === text ? answer.verdicts : undefined
  const { broken, later, unread, unjudged } = judge(rulesOf(server), {
    content,
    text,
    channel_id: channel,
    roles: caller.roles,
    edited,
    recent: recentPostsFacts.of(server).get(authorKey(channel, author.id)) ?? [],
    classifiers: moderated.moderation?.backends ?? moderated.classifiers ?? [],
    verdicts: found,
    isLast: (answer?.asked ?? 0) >= maxQuestions,
    now: turn.now,
  })
  if (unread.length > 0) {
    const question: TextQuestion = {
      owner: server.owner_id,
      author: author.id,
      content,
      text,
      rules: unread,
      known: found ?? new Map(),
      asked: answer?.asked ?? 0,
    }
    return { lookUp: textLookup, question }
  }
  if (broken.length === 0 && unjudged.length === 0 && later.length === 0) return undefined
  const consequences = consequencesOf(broken, rule => spares(server, rule, caller))
  // A handler that does not understand the answer is told by the refusal alone.
  if (consequences.isRefused && moderated.classifiers === undefined) throw blocked(refusalOf({ broken, consequences }))
  return { broken, consequences, unjudged, later }
}

const refusalOf = ({ broken, consequences }: Pick<Sanction, "broken" | "consequences">): Refusal => ({
  violations: broken.map(({ rule }) => rule.rule_type),
  ...(consequences.reason !== undefined && { reason: consequences.reason }),
})

/** What the author of a refused message is told. */
export const blocked = ({ violations, reason }: Refusal) =>
  fail("message_blocked", {
    extra: { code: "MESSAGE_BLOCKED", violations, ...(reason !== undefined && { reason }) },
  })

/**
 * AM1: everything that a verdict entails, but for the message itself. `message_id`: of the message
 *      that it is about, if there is one.
 */
export function sanctioning(
  { turn, server, channel, author, caller }: Subject,
  { broken, consequences, unjudged }: Sanction,
  message_id: Snowflake | undefined,
  /** Of a classifier's verdict: see `NewViolation`. */
  judged: string | null = null,
): HomeEffects {
  const { now, newId } = turn
  const isDue = (before: number | undefined) => before === undefined || before <= now - alertEveryMs
  const passed = unjudged.filter(({ rule }) => isDue(unjudgedNotes.of(server).get(rule.id)))
  const alertKey = (rule: Snowflake) => `${rule}:${author.id}`
  const alerting = new Set(
    consequences.alerts.flatMap(({ rule }) => (isDue(alerts.of(server).get(alertKey(rule.id))) ? [rule.id] : [])),
  )
  const noted = [
    ...broken.map(one => ({ ...violationOf(one, consequences), judged })),
    ...passed.map(one => ({ ...noteOf(one), judged: null })),
  ]
  const told = noted.filter(({ rule_id }) => alerting.has(rule_id))
  const end = ending()
  return {
    apply(draft) {
      for (const rule of alerting) remember(alerts.of(draft), alertKey(rule), now)
      for (const { rule } of passed) remember(unjudgedNotes.of(draft), rule.id, now)
      end?.apply(draft)
    },
    write: [
      ...noted.map(violation => insertAutomodViolation(violation)),
      // Now and then, by the time that an id bears.
      ...(noted.some(({ id }) => msOf(id) % violationsPerTrim === 0)
        ? [trimAutomodViolations({ server_id: server.id })]
        : []),
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
    const done = spares(server, rule, holderOf(author, caller))
      ? {}
      : { timeout_user: timeout, kick_user: kick, ban_user: ban }
    const types = rule.actions.map(({ action_type }) => action_type)
    return noteOn(rule, {
      matched_content: excerpt(matched),
      severity,
      actions_taken: [...new Set(types)].filter(type =>
        type === "alert_moderators" ? alerting.has(rule.id) : !sanctions.has(type) || done[type as keyof typeof done],
      ),
      metadata,
    })
  }

  /** Of a rule that nobody knows to be broken: the author is held responsible for nothing. */
  function noteOf({ rule, reason }: Verdict["unjudged"][number]) {
    return noteOn(rule, { matched_content: "", severity: "low", actions_taken: [], metadata: { unjudged: reason } })
  }

  function noteOn(
    rule: AutomodRule,
    found: Pick<AutomodViolation, "matched_content" | "severity" | "actions_taken"> & {
      readonly metadata: AutomodViolation["metadata"] | undefined
    },
  ): AutomodViolation {
    return {
      id: newId(),
      server_id: server.id,
      user_id: author.id,
      channel_id: channel,
      rule_id: rule.id,
      rule_type: rule.rule_type,
      created_at: secondsAt(now),
      ...found,
      metadata: { ...found.metadata, ...(message_id !== undefined && { message_id }) },
    }
  }

  /** The end of the author's membership, or a time-out. */
  function ending(): HomeEffects | undefined {
    const { ban, kick, timeout, timeoutSeconds } = consequences
    if (ban) {
      const { delete_message_days: days = 0 } = ban.action.metadata
      const banned = { target_id: author.id, username: author.username, days: days as number }
      return banning(server, banned, contextOf(ban), turn)
    }
    if (!caller) return undefined
    if (kick) {
      const by = { ...turn, ...contextOf(kick) }
      audit(by, "MEMBER_KICK", memberTarget(author.id))
      return kicked(server, author.id, by, webhooksSuspension)
    }
    if (!timeout || timeoutSeconds === null || !mayBeTimedOut(server, caller)) return undefined
    const until = secondsAt(now) + timeoutSeconds
    const after = { ...caller, timeout_until: until, timeout_reason: timeout.action.reason }
    audit({ ...turn, ...contextOf(timeout) }, "MEMBER_UPDATE", memberTarget(author.id), memberChanges(caller, after))
    return timingOut(server, caller, until, timeout.action.reason, author)
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

/** When a rule was last noted not to have judged a message, in Unix milliseconds. The latest last. */
const unjudgedNotes = defineMemory<ServerState, Map<string, number>>(() => new Map())

/**
 * Milliseconds for which moderators are not told again of the same user by the same rule, and for
 * which it is not noted again that a rule did not judge a message.
 */
const alertEveryMs = 60_000
const violationsPerTrim = 64
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
