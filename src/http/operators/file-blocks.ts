import { fail } from "../../contract/core/errors.ts"
import { success } from "../../contract/core/fields.ts"
import type { routes } from "../../contract/operators/file-blocks.ts"
import { operatorsBlock, uploaderBlock } from "../../domain/messages/file-blocks.ts"
import { secondsAt } from "../../std/clock.ts"
import type { Handlers } from "../server/handlers.ts"
import type { Http } from "../shared/http.ts"

/** Files that nobody may send, and users who may send none. */
export const fileBlocks = ({ storage, clock }: Http<"fileBlocks" | "users">): Handlers<typeof routes> => ({
  listBlockedHashes: ({ query: { limit, offset } }) => storage.fileBlocks.blockedHashes(limit, offset),

  async blockHash({ body: { hash_value, reason }, operator }) {
    const block = operatorsBlock(hash_value, reason, secondsAt(clock()), operator.id)
    await storage.fileBlocks.blockHash(block)
    return { success: true, hash_value: block.hash_value, hash_type: block.hash_type }
  },

  async unblockHash({ params: { hash_value }, trail }) {
    trail.result = { was_blocked: await storage.fileBlocks.unblockHash(hash_value.toLowerCase()) }
    return success
  },

  listBlockedUploaders: ({ query: { limit, offset } }) =>
    storage.fileBlocks.blockedUploaders(secondsAt(clock()), limit, offset),

  async blockUploader({ body: { user_id, reason, duration_hours = 0 }, operator }) {
    const user = await storage.users.find(user_id)
    if (!user || user.deletion_status === "purged") throw fail("user_not_found")
    await storage.fileBlocks.blockUploader(
      uploaderBlock(user_id, reason, duration_hours, secondsAt(clock()), operator.id),
    )
    return { success: true, user_id }
  },

  async unblockUploader({ params: { user_id }, trail }) {
    trail.result = { was_blocked: await storage.fileBlocks.unblockUploader(user_id) }
    return success
  },
})
