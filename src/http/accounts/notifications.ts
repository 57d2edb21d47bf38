import { userActor } from "../../actors/user.ts"
import { success } from "../../contract/core/fields.ts"
import type { routes } from "../../contract/accounts/notifications.ts"
import type { Handlers } from "../server/handlers.ts"
import type { Http } from "../shared/http.ts"

const usualPage = 20

export const notifications = ({ ask, storage }: Http<"notifications">): Handlers<typeof routes> => ({
  async listNotifications({ query: { limit = usualPage, unread_only = false, before }, caller: { user_id } }) {
    const [page, unread_count] = await Promise.all([
      storage.notifications.page(user_id, { limit, before, unread: unread_only }),
      storage.notifications.unreadCount(user_id),
    ])
    return { notifications: page, unread_count }
  },

  async readAllNotifications({ caller }) {
    await ask(userActor, caller.user_id, { type: "readAllNotifications" })
    return success
  },

  async readNotification({ params: { notification_id }, caller }) {
    await ask(userActor, caller.user_id, { type: "readNotification", notification_id })
    return success
  },
})
