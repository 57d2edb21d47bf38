import { channelActor } from "../actors/channel.ts"
import type { ReadMarks } from "../actors/messages/read-state.ts"
import { Failure } from "../contract/core/errors.ts"
import type { Snowflake } from "../contract/core/fields.ts"
import type { Message } from "../contract/messages/messages.ts"
import { compareIds } from "../domain/core/snowflake.ts"
import { byChannel } from "./by-channel.ts"
import type { ViewSources } from "./sources.ts"

/** Who has read a message, as one of its readers sees it. */
export interface Receipt {
  readonly read_count: number
  readonly read: boolean
  /** Names; only where the reader is the author. */
  readonly read_by: string[]
  /** Nor is shown who has received it. */
  readonly isHidden: boolean
}

type Asked = Pick<Message, "id" | "channel_id" | "author_id">

/** By message. Who may not read a channel any more is told nothing of what is there. */
export async function receiptsOf(
  { ask, storage }: Pick<ViewSources, "ask" | "storage">,
  user: Snowflake,
  messages: readonly Asked[],
): Promise<ReadonlyMap<Snowflake, Receipt>> {
  const marked = await Promise.all(
    [...byChannel(messages)].map(async ([channel, asked]) => {
      const about = asked.map(({ id, author_id }) => ({ id, author_id }))
      try {
        const { marks } = await ask(channelActor, channel, { type: "requireRead", user, messages: about })
        return { asked, marks }
      } catch (error) {
        if (error instanceof Failure && error.code !== "unavailable") return { asked, marks: undefined }
        throw error
      }
    }),
  )
  return receiptsIn(storage, user, marked)
}

/** The same, of what has been asked already; undefined marks: the user may not read there. */
export async function receiptsIn(
  storage: ViewSources["storage"],
  user: Snowflake,
  marked: readonly {
    readonly asked: readonly Pick<Asked, "id" | "author_id">[]
    readonly marks: ReadMarks | undefined
  }[],
): Promise<ReadonlyMap<Snowflake, Receipt>> {
  const ids = [...new Set(marked.flatMap(({ marks }) => marks?.readers ?? []))]
  const names = ids.length === 0 ? new Map<Snowflake, string>() : await storage.users.namesOf(ids)
  const receipts = new Map<Snowflake, Receipt>()
  for (const { asked, marks } of marked) {
    if (!marks) continue
    const { counts, named, readers, isHidden = false } = marks
    const by = new Map(named)
    for (const [i, message] of asked.entries())
      receipts.set(message.id, {
        read_count: counts[i]!,
        read: isRead(message, user, marks),
        read_by: (by.get(i) ?? []).flatMap(place => names.get(readers[place]!) ?? []),
        isHidden,
      })
  }
  return receipts
}

/** Whether the asking user has read a message. */
export const isRead = (
  { id, author_id }: Pick<Asked, "id" | "author_id">,
  user: Snowflake,
  { upTo }: ReadMarks,
): boolean => author_id === user || compareIds(id, upTo) <= 0

/** A user who has read a message has received it, too. */
export function addReceipt(
  message: Pick<Message, "status" | "delivery_count" | "read_count" | "read" | "read_by">,
  receipt: Receipt | undefined,
): void {
  if (!receipt) return
  const { isHidden: _, ...shown } = receipt
  Object.assign(message, shown)
  message.delivery_count = Math.max(message.delivery_count, receipt.read_count)
  if (receipt.read_count > 0) message.status = "read"
}
