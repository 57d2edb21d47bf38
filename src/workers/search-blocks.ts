import type { Snowflake } from "../contract/core/fields.ts"
import { compareIds } from "../domain/core/snowflake.ts"
import { signatureOf } from "../domain/messages/text-signature.ts"
import type { Block, BlockEnd, BlockTexts } from "../storage/messages/search-blocks.ts"
import type { SearchIndexStep, SearchIndexStorage } from "../storage/storage.ts"

export interface BlockBounds {
  /** A block has so many messages; one of which many were deleted down to half as many. */
  readonly messages: number
  /** After about so many new messages of a channel it is looked whether they make a block. */
  readonly messagesPerLook: number
}

/** At once: messages of a channel, blocks that are made anew, and channels with messages of before. */
const batchSizes = { messages: 1_024, blocks: 8, channels: 32 }

const blockOf = ({ channel_id, last_id, looks, texts }: BlockTexts, end?: Snowflake): Block => ({
  channel_id,
  upto_id: end ?? last_id,
  looks,
  signature: signatureOf(texts),
})

/**
 * Makes blocks of the newest messages of channels, where there are enough, for who holds their
 * shards. It keeps, with what follows:
 *   BLK1  A block that has a signature has the bits of every text of the index in it. What writes
 *       or removes rows of a block takes its signature in the same transaction.
 *   BLK2  A message of the index is in the block with the lowest end that is not before it; after
 *       the last one it is in none.
 * @returns channels that may have more
 */
export async function sealNewest(
  step: SearchIndexStep,
  channels: readonly Snowflake[],
  { messages }: BlockBounds,
): Promise<readonly Snowflake[]> {
  let left = channels
  for (let done = 0; left.length > 0 && done < batchSizes.messages; done += messages) {
    const filled = await step.filled(left, messages)
    if (filled.length === 0) return []
    const texts = await step.firstTexts(
      filled.map(({ channel_id }) => channel_id),
      messages,
    )
    await step.putBlocks(texts.map(one => blockOf(one)))
    left = filled.filter(({ count }) => count === 2 * messages).map(({ channel_id }) => channel_id)
  }
  return left
}

/** BLK1: gives blocks their signatures back. @returns whether there may be others */
export async function makeDoubtful(step: SearchIndexStep, { messages }: BlockBounds): Promise<boolean> {
  const doubtful = await step.doubtful(batchSizes.blocks)
  if (doubtful.length === 0) return false
  const parts = await step.textsOf(doubtful, messages, Math.max(batchSizes.messages, 2 * messages))
  const [blocks, thin]: [Block[], BlockEnd[]] = [[], []]
  let isMore = doubtful.length === batchSizes.blocks
  for (const { channel_id, upto_id } of doubtful) {
    const own = parts
      .filter(part => part.channel_id === channel_id && part.upto_id === upto_id)
      .toSorted((a, b) => compareIds(a.last_id, b.last_id))
    const { total, is_all: isAll } = own[0] ?? { total: 0, is_all: true }
    // Blocks do not get ever fewer messages: the next later one takes the rest.
    if (isAll && total < messages / 2) thin.push({ channel_id, upto_id })
    // Of one that has grown much the first parts become blocks of their own, and the rest stays.
    else blocks.push(...own.map((part, i) => blockOf(part, isAll && i === own.length - 1 ? upto_id : undefined)))
    isMore ||= !isAll || total < messages / 2
  }
  if (blocks.length > 0) await step.putBlocks(blocks)
  if (thin.length > 0) await step.endBlocks(thin)
  return isMore
}

/**
 * Messages that were indexed before there were blocks, a few channels at a time. When all are in
 * blocks and no program of the version before may be left, the index goes that it reads.
 * @returns whether there is more to do now, later or never
 */
export async function sealNext(storage: SearchIndexStorage, bounds: BlockBounds): Promise<"now" | "later" | "never"> {
  const { channels, isOver } = await storage.step(async step => {
    const found = await step.unsealed(batchSizes.channels)
    const { channels } = found
    if (!channels || channels.length === 0) return found
    const more = await sealNewest(step, channels, bounds)
    // Of one that is not read to its end the rest is next.
    const first = channels.find(id => more.includes(id))
    await step.sealedUpTo(first === undefined ? channels.at(-1)! : String(BigInt(first) - 1n))
    return found
  })
  if (!channels) return "never"
  if (channels.length > 0) return "now"
  if (!isOver) return "later"
  await storage.endOldIndex()
  await storage.step(step => step.endSealing())
  return "never"
}
