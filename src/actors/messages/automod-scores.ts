import type { AutomodRule } from "../../contract/communities/automod.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { consequencesOf, excerpt, isAbout, judge } from "../../domain/communities/automod.ts"
import type { ScoresByBackend } from "../../domain/communities/automod-match.ts"
import type { ServerState } from "../../domain/communities/servers.ts"
import type { ChannelState } from "../../domain/core/channels.ts"
import { holds } from "../../domain/core/permissions.ts"
import { wordsIn } from "../../domain/messages/messages.ts"
import { messageKey } from "../../storage/messages/messages.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import type { ActorKind, Publication } from "../../runtime/actor.ts"
import type { NotificationCommands } from "../accounts/notifications.ts"
import { rulesOf } from "../communities/automod.ts"
import { ban, banFacts } from "../communities/membership.ts"
import { combine } from "../shared/effects.ts"
import { defineFact } from "../shared/facts.ts"
import { member, memberFacts } from "../shared/member-facts.ts"
import { tellsOf } from "../shared/tells.ts"
import { holderOf, judgingNeeds, sanctioning, spares, type Sanction } from "./automod-judging.ts"
import { goneFrom, type MessageDeletion } from "./message-deletion.ts"
import { messageFacts } from "./message-facts.ts"

/**
 * What classifiers say of messages that are stored already, among the commands of their channel. It
 * keeps:
 *   AM5  A text of a message that breaks rules has its consequences once, however often a
 *        classifier's verdict about it comes.
 */
export interface ScoreCommands {
  /**
   * `content`: what was judged. `judged`: a name for the message with this text. `isMissed`: nobody
   * has judged it in time.
   */
  applyScores(input: {
    message_id: Snowflake
    author_id: Snowflake
    content: string
    judged: string
    rule_ids: readonly Snowflake[]
    scores: ScoresByBackend
    isMissed?: boolean | undefined
  }): { outcome: "judged" | "repeated" | "gone" }
}

/** By what was judged, the rules that were broken by it. */
const judgedFacts = defineFact<ServerState, readonly Snowflake[]>({
  keep: 1_000,
  load: (storage, server, keys) => storage.automod.judged(server, keys),
})

const tellUser = tellsOf<NotificationCommands>("user")

/** What the answer to a refused message says, of one that was deleted: unless the rule keeps it to itself. */
function toldAuthor(
  server: Readonlied<ServerState>,
  author: Snowflake,
  content: string,
  { broken, consequences: { reason } }: Sanction,
): readonly Publication[] {
  const isTold = broken.some(({ rule }) =>
    rule.actions.some(({ action_type, notify_user }) => action_type === "delete_message" && notify_user),
  )
  if (!isTold) return []
  const of = {
    type: "system",
    title: "Auto-moderation",
    content: `Your message in ${server.name} was deleted${reason === undefined ? "" : `: ${reason}`}`,
    content_preview: excerpt(content),
    link: null,
    sender_id: null,
  }
  return [tellUser(author, { type: "notify", of })]
}

export const scoreCommands = (
  deletion: MessageDeletion,
): ActorKind<ServerState, ChannelState, ScoreCommands>["commands"] => ({
  applyScores: {
    needs: ({ message_id, author_id, judged }, { id, home }) => [
      member(author_id),
      ban(author_id),
      judgedFacts.need(judged),
      ...deletion.needs(home, id, [message_id]),
      ...judgingNeeds(home, id, author_id),
    ],
    turn(turn, { message_id, author_id, content, judged, rule_ids, scores, isMissed = false }) {
      const { state: channel, home: server, now } = turn
      const found = messageFacts.of(server).get(messageKey(channel.id, message_id))
      // Its new text is judged by itself.
      if (!found || found.author_id !== author_id || wordsIn(found) !== content) return { reply: { outcome: "gone" } }
      // AM5
      if (judgedFacts.of(server).get(judged)) return { reply: { outcome: "repeated" } }
      const { author_username: username, author_bot: bot, author_badges: badges } = found
      const author = { id: author_id, username, bot, badges }
      const caller = memberFacts.of(server).get(author_id) ?? undefined
      const holder = holderOf(author, caller)
      if (holds(server, holder, "administrator")) return { reply: { outcome: "judged" } } // AM2
      const rules = rulesOf(server).filter(({ id }) => rule_ids.includes(id))
      const about = { channel_id: channel.id, roles: holder.roles }
      const { broken } = judge(rules, { content, ...about, recent: [], classifiers: [], scores, now })
      const unjudged = isMissed
        ? rules.filter(rule => isAbout(rule, about)).map(rule => ({ rule, reason: "late" as const }))
        : []
      const isBanned = Boolean(banFacts.of(server).get(author_id))
      const consequences = consequencesOf(broken, rule => isBanned || isSpared(rule))
      const sanction = { broken, consequences, unjudged }
      return {
        ...combine(
          consequences.isRefused
            ? deletion.effects(channel, [found], goneFrom(server, found, { automod: true }), now)
            : undefined,
          sanctioning({ turn, server, channel: channel.id, author, caller }, sanction, message_id, judged),
          { publish: consequences.isRefused && !bot ? toldAuthor(server, author_id, content, sanction) : [] },
          broken.length === 0
            ? undefined
            : {
                apply: draft => {
                  judgedFacts.of(draft).set(
                    judged,
                    broken.map(({ rule }) => rule.id),
                  )
                },
              },
        ),
        reply: { outcome: "judged" },
      }

      /** Who has left can only be banned. */
      function isSpared(rule: AutomodRule): boolean {
        return (
          spares(server, rule, holder) ||
          (!caller && !rule.actions.some(({ action_type }) => action_type === "ban_user"))
        )
      }
    },
  },
})
