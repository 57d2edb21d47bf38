import { fail } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { messageUpdate, type Message } from "../../contract/messages/messages.ts"
import { secondsAt } from "../../std/clock.ts"
import { messageObject, named, nothingIn, wordsIn, type MessageState } from "../../domain/messages/messages.ts"
import type { ServerState } from "../../domain/communities/servers.ts"
import type { ChannelState } from "../../domain/core/channels.ts"
import type { Actor } from "../../domain/accounts/accounts.ts"
import { messageKey, updateContent } from "../../storage/messages/messages.ts"
import { accessOf } from "../shared/access.ts"
import { countPost, judgingNeeds, moderating, type Held, type Moderated } from "./automod-judging.ts"
import { pair, requireOpen } from "../social/direct-privacy.ts"
import { keep } from "./kept-messages.ts"
import { goneFrom, type MessageDeletion } from "./message-deletion.ts"
import { member } from "../shared/member-facts.ts"
import { messageFacts } from "./message-facts.ts"
import type { ActorKind } from "../../runtime/actor.ts"
import { toViewers } from "./viewers.ts"

/** Changes of what a message says, among the commands of its channel. */
export interface MessageEditCommands {
  /** `author`: who edits, with their current name. */
  editMessage(input: { author: Actor; message_id: Snowflake; content: string } & Moderated): Message | Held
}

export const messageEditCommands = (
  deletion: MessageDeletion,
): ActorKind<ServerState, ChannelState, MessageEditCommands>["commands"] => ({
  editMessage: {
    needs: ({ author, message_id }, { id, home }) => [
      member(author.id),
      ...pair(home),
      ...deletion.needs(home, id, [message_id]),
      ...judgingNeeds(home, id, author.id),
    ],
    turn(context, { author, message_id, content, moderation, classifiers }) {
      const { state: channel, home: server, now, linkTo } = context
      const access = accessOf(server, channel.id, author.id, now)
      const found = messageFacts.of(server).get(messageKey(channel.id, message_id))
      if (!found) throw fail("message_not_found")
      if (found.author_id !== author.id) throw fail("not_author")
      requireOpen(server)
      access.requireFree("messages.send")
      const nothing = nothingIn({ content })
      if (nothing) throw fail(nothing)
      const words = wordsIn({ ...found, content })
      return moderating(
        context,
        {
          author,
          caller: access.member,
          content: words,
          text: content,
          edited: message_id,
          moderated: { moderation, classifiers },
        },
        () => {
          const edited: MessageState = {
            ...found,
            // Memory may have an older name of the author.
            ...named(author),
            content,
            edited_at: secondsAt(now),
          }
          return {
            apply: draft => {
              keep(draft, edited)
              countPost(draft, edited)
            },
            write: [updateContent({ channel_id: channel.id, id: message_id, content, edited_at: edited.edited_at! })],
            publish: toViewers(server, channel.id, messageUpdate, messageObject(edited, { linkTo, now, reader: null })),
            reply: messageObject(edited, { linkTo, now, reader: author.id }),
          }
        },
        // What the text became was never seen; the message goes with it.
        () => deletion.effects(channel, [found], goneFrom(server, found, { automod: true }), now),
      )
    },
  },
})
