import { fail } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { notificationCreate, notificationUpdate, type Notification } from "../../contract/accounts/notifications.ts"
import { userOnly } from "../../domain/core/audience.ts"
import { secondsAt } from "../../std/clock.ts"
import type { UserState } from "../../domain/accounts/user-state.ts"
import {
  insertNotification,
  noticeKey,
  markAllNotificationsRead,
  markNotificationsRead,
} from "../../storage/accounts/notifications.ts"
import { notificationChoices, wantsToKnow, type NotificationDefault } from "../shared/notification-levels.ts"
import type { ActorKind } from "../../runtime/actor.ts"
import { defineFact } from "../shared/facts.ts"

/**
 * Notifications, among the commands of their recipient's home. It keeps at most
 * `notificationsKept`: the oldest are deleted.
 */
export interface NotificationCommands {
  /**
   * With `where` it is about a channel: null when the user has muted what is there. Without
   * `where`, it reaches them whatever they have muted.
   */
  notify(input: {
    of: Omit<Notification, "id" | "read" | "created_at">
    where?: (NotificationDefault & { channel_id: Snowflake }) | undefined
    /** The message that it is about: the user is notified of each message once. */
    about?: { channel_id: Snowflake; message_id: Snowflake }
    /** The user has read that message already. */
    isRead?: boolean
  }): Notification | null
  /** One that is read stays so. */
  readNotification(input: { notification_id: Snowflake }): { read: true }
  readAllNotifications(input: {}): { read: true }
}

export const notificationFacts = defineFact<UserState, { readonly read: boolean }>({
  keep: 100,
  load: (storage, user, ids) => storage.notifications.states(user, ids),
})

export const noticeFacts = defineFact<UserState, true>({
  keep: 100,
  load: (storage, user, keys) =>
    storage.notifications.about(
      user,
      keys.map(key => {
        const [channel, message] = key.split(":")
        return { channel: channel!, message: message! }
      }),
    ),
})

export const notificationCommands: ActorKind<UserState, UserState, NotificationCommands>["commands"] = {
  notify: {
    needs: ({ where, about }, { suspect }) => [
      ...(where ? [notificationChoices] : []),
      // The latest are in memory, older ones are caught by their unique index; then they are looked
      // up.
      ...(about && suspect ? [noticeFacts.need(noticeKey(about.channel_id, about.message_id))] : []),
    ],
    turn({ state: user, now, newId }, { of, where, about, isRead = false }) {
      const key = about && noticeKey(about.channel_id, about.message_id)
      if (key !== undefined && noticeFacts.of(user).get(key)) return { reply: null }
      if (where && !wantsToKnow(user, where, where.channel_id, of.type === "mention", now)) return { reply: null }
      const notification: Notification = { ...of, id: newId(), read: isRead, created_at: secondsAt(now) }
      return {
        apply: draft => {
          notificationFacts.of(draft).set(notification.id, { read: isRead })
          if (key !== undefined) noticeFacts.of(draft).set(key, true)
        },
        write: [insertNotification({ user_id: user.id, ...notification, ...about })],
        publish: [notificationCreate.to(userOnly(user.id), notification)],
        reply: notification,
      }
    },
  },

  readNotification: {
    needs: ({ notification_id }) => [notificationFacts.need(notification_id)],
    turn({ state: user }, { notification_id }) {
      const found = notificationFacts.of(user).get(notification_id)
      if (!found) throw fail("notification_not_found")
      if (found.read) return { reply: { read: true } }
      return {
        apply: draft => {
          notificationFacts.of(draft).set(notification_id, { read: true })
        },
        write: [markNotificationsRead({ ids: [notification_id] })],
        publish: [notificationUpdate.to(userOnly(user.id), { id: notification_id, read: true })],
        reply: { read: true },
      }
    },
  },

  readAllNotifications: {
    turn: ({ state: user }) => ({
      apply: draft => {
        for (const [id, known] of notificationFacts.of(draft))
          if (known) notificationFacts.of(draft).set(id, { read: true })
      },
      write: [markAllNotificationsRead({ user_id: user.id })],
      publish: [notificationUpdate.to(userOnly(user.id), { all_read: true })],
      reply: { read: true },
    }),
  },
}
