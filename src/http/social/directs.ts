import { directActor } from "../../actors/direct.ts"
import { fail, Failure } from "../../contract/core/errors.ts"
import type { DirectChannel, routes } from "../../contract/social/directs.ts"
import { limits } from "../../contract/core/limits.ts"
import { messagingDefaults } from "../../contract/accounts/messaging-settings.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { directObject, mayOpenDirect, notesObject, type DirectRow } from "../../domain/social/directs.ts"
import { publicUser } from "../../storage/accounts/users.ts"
import type { Handlers } from "../server/handlers.ts"
import { own } from "../accounts/sign-in.ts"
import { isId } from "../../domain/core/snowflake.ts"
import type { Creates, Http } from "../shared/http.ts"

export const directs = (
  http: Http<"directs" | "messagingSettings" | "relationships" | "users"> & Creates,
): Handlers<typeof routes> => {
  const { create, storage } = http

  /**
   * When several users open one conversation at the same time, one creates it and the others find
   * it.
   */
  const opened = async (open: Promise<DirectRow>, find: () => Promise<DirectRow | undefined>): Promise<DirectRow> => {
    try {
      return await open
    } catch (error) {
      if (!(error instanceof Failure) || error.code !== "direct_exists") throw error
      const found = await find()
      if (!found) throw error
      return found
    }
  }

  const requireConsent = async (user: Snowflake, recipient: Snowflake): Promise<void> => {
    const [theirs, mine, choice] = await Promise.all([
      storage.relationships.status(recipient, user),
      storage.relationships.status(user, recipient),
      storage.messagingSettings.find(recipient),
    ])
    const { allow_dms_from } = choice ?? messagingDefaults
    if (!mayOpenDirect({ theirs, mine }, allow_dms_from)) throw fail("cannot_message")
  }

  return {
    async listDirectChannels({ caller: { user_id } }) {
      const list = await storage.directs.list(user_id, limits.directsListed)
      return list.map(row =>
        directObject(
          row,
          publicUser({ ...row, id: row.recipient_id, created_at: row.registered_at }),
          row.last_message_id,
        ),
      )
    },

    async openDirectChannel({ body: { recipient_id }, caller }): Promise<DirectChannel> {
      const { user_id } = caller
      if (recipient_id === undefined || recipient_id === "") throw fail("recipient_required")
      if (!isId(recipient_id)) throw fail("invalid_recipient_id")
      if (recipient_id === user_id) throw fail("self_message")
      const find = () => storage.directs.find(user_id, recipient_id)
      const [recipient, known] = await Promise.all([storage.users.find(recipient_id), find()])
      if (!recipient) throw fail("user_not_found")
      const other = publicUser(recipient)
      if (known) return directObject(known, other, await storage.directs.latestIn(known.id))
      if (recipient.deletion_status === "purged") throw fail("user_not_found")
      await requireConsent(user_id, recipient_id)
      const user = publicUser(await own(http, user_id))
      const row = await opened(create(directActor, { type: "openDirect", user, other }), find)
      return directObject(row, other, await storage.directs.latestIn(row.id))
    },

    async getNotes({ caller: { user_id } }) {
      const find = () => storage.directs.find(user_id, null)
      const row = (await find()) ?? (await opened(create(directActor, { type: "openNotes", user: user_id }), find))
      return notesObject(row, await storage.directs.latestIn(row.id))
    },
  }
}
