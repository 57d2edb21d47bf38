import { fail } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { makeThumbnails } from "../../contract/core/jobs.ts"
import { messageUpdate } from "../../contract/messages/messages.ts"
import type { ServerState } from "../../domain/communities/servers.ts"
import type { ChannelState } from "../../domain/core/channels.ts"
import { secondsOf } from "../../domain/core/snowflake.ts"
import { mayHaveThumbnails, type AttachmentState, type PictureFacts } from "../../domain/messages/attachments.ts"
import { messageObject, type MessageState } from "../../domain/messages/messages.ts"
import { messageKey, updateAttachments } from "../../storage/messages/messages.ts"
import { endThumbnailRequest, insertThumbnailRequest } from "../../storage/messages/thumbnails.ts"
import type { ActorKind } from "../../runtime/actor.ts"
import type { HomeEffects } from "../shared/effects.ts"
import { keep } from "./kept-messages.ts"
import { message, messageFacts } from "./message-facts.ts"
import { toViewers } from "./viewers.ts"

/** Thumbnails of a message's pictures, among the commands of its channel. A job makes them. */
export interface ThumbnailCommands {
  /** What was made of its files, by their names. */
  addThumbnails(input: { message_id: Snowflake; made: Readonly<Record<string, PictureFacts>> }): { added: true }
}

export const thumbnailCommands: ActorKind<ServerState, ChannelState, ThumbnailCommands>["commands"] = {
  addThumbnails: {
    needs: ({ message_id }, { id }) => [message(id, message_id)],
    turn({ state: channel, home: server, now, linkTo }, { message_id, made }) {
      const found = messageFacts.of(server).get(messageKey(channel.id, message_id))
      if (!found) throw fail("message_not_found")
      const ended = endThumbnailRequest({ channel_id: channel.id, message_id })
      const isNews = ({ file, picture }: Readonly<AttachmentState>) => picture === undefined && made[file] !== undefined
      const before = found.attachments ?? []
      if (!before.some(isNews)) return { write: [ended], reply: { added: true } }
      const attachments = before.map(one => (isNews(one) ? { ...one, picture: made[one.file]! } : one))
      const after = { ...found, attachments } as MessageState
      return {
        apply: draft => keep(draft, after),
        write: [updateAttachments({ channel_id: channel.id, id: message_id, attachments }), ended],
        publish: toViewers(server, channel.id, messageUpdate, messageObject(after, { linkTo, now, reader: null })),
        reply: { added: true },
      }
    },
  },
}

/** What a new message with pictures asks for. */
export function thumbnailsAsked({ channel_id, id, attachments }: MessageState): Partial<HomeEffects> | undefined {
  if (!attachments?.some(mayHaveThumbnails)) return undefined
  return {
    write: [insertThumbnailRequest({ channel_id, message_id: id, since: secondsOf(id) })],
    publish: [makeThumbnails.at({ channel_id, message_id: id }, { key: `thumbnails:${id}` })],
  }
}
