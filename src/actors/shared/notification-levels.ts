import { fail } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"
import {
  notificationSettingsUpdate,
  type NotificationChoice as NotificationChoiceObject,
  type NotificationPatch,
  type NotificationSettings,
} from "../../contract/accounts/notification-settings.ts"
import { userOnly } from "../../domain/core/audience.ts"
import { secondsAt } from "../../std/clock.ts"
import {
  choiceKey,
  chosen,
  effectiveLevel,
  isNoChoice,
  isNotified,
  isMuted,
  noChoice,
  placeOf,
  type NotificationChoice,
} from "../../domain/accounts/notification-levels.ts"
import type { ServerState } from "../../domain/communities/servers.ts"
import type { UserState } from "../../domain/accounts/user-state.ts"
import { dropNotificationChoice, putNotificationChoice } from "../../storage/accounts/notification-settings.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import type { ActorKind } from "../../runtime/actor.ts"
import { defineFact } from "./facts.ts"

/**
 * What a user wants to be told of, by server and channel, among the commands of their home. It
 * keeps:
 *   LEVEL1  A user has at most `notificationSettings` choices. The end of a membership deletes
 *       those for the server.
 */
export interface NotificationLevelCommands {
  /** `of`: what the server's home has said to somebody who may choose. */
  chooseNotifications(input: {
    of: NotificationDefault
    channel_id: Snowflake | null
    patch: NotificationPatch
  }): NotificationSettings
}

/**
 * A server's own level, said to somebody who is in it; of a conversation outside servers
 * `notificationsOutside`.
 */
export interface NotificationDefault {
  readonly server_id: Snowflake
  readonly default_message_notifications: number
}
export const notificationDefaultOf = (
  server: Pick<Readonlied<ServerState>, "id" | "default_message_notifications">,
): NotificationDefault => ({
  server_id: server.id,
  default_message_notifications: server.default_message_notifications,
})

/**
 * Outside servers everybody is notified of everything, unless they have chosen otherwise for that
 * conversation. `server_id` "0": none.
 */
export const notificationsOutside: NotificationDefault = { server_id: "0", default_message_notifications: 0 }

/** All of them are one fact of the home, under this key. */
const all = "all"

export const notificationChoiceFacts = defineFact<UserState, ReadonlyMap<string, NotificationChoice>>({
  keep: 1,
  load: async (storage, user) => new Map([[all, await storage.notificationSettings.ofUser(user)]]),
})
export const notificationChoices = notificationChoiceFacts.need(all)

type User = Readonlied<UserState>

const choicesOf = (user: User): ReadonlyMap<string, NotificationChoice> =>
  notificationChoiceFacts.of(user).get(all) ?? new Map()

export const notificationLevelCommands: ActorKind<UserState, UserState, NotificationLevelCommands>["commands"] = {
  chooseNotifications: {
    needs: () => [notificationChoices],
    turn({ state: user, now }, { of, channel_id, patch }) {
      const seconds = secondsAt(now)
      const key = choiceKey(of.server_id, channel_id)
      const before = choicesOf(user)
      const choice = chosen(before.get(key) ?? noChoice, patch, seconds)
      const isGone = isNoChoice(choice)
      const after = new Map(before)
      if (isGone) after.delete(key)
      else after.set(key, choice)
      if (after.size > limits.notificationSettings && after.size > before.size)
        throw fail("notification_settings_limit") // LEVEL1
      const shown = notificationSettingsObject(after, of, channel_id, seconds)
      if (isGone && !before.has(key)) return { reply: shown }
      const row = { user_id: user.id, server_id: of.server_id, channel_id }
      return {
        apply: draft => {
          notificationChoiceFacts.of(draft).set(all, after)
        },
        write: [isGone ? dropNotificationChoice(row) : putNotificationChoice({ ...row, ...choice })],
        publish: [notificationSettingsUpdate.to(userOnly(user.id), shown)],
        reply: shown,
      }
    },
  },
}

/** All that a user has chosen and that is not over, in the order of the ids. */
export function notificationChoiceObjects(
  choices: ReadonlyMap<string, NotificationChoice>,
  now: number,
): NotificationChoiceObject[] {
  return [...choices].flatMap(([key, choice]) => {
    const { server, channel } = placeOf(key)
    const shown = choiceObject(choice, server, channel, now)
    return isNoChoice(shown) ? [] : [shown]
  })
}

function choiceObject(
  choice: NotificationChoice,
  server_id: Snowflake,
  channel_id: Snowflake | null,
  now: number,
): NotificationChoiceObject {
  const muted = isMuted(choice, now)
  const shown = server_id === notificationsOutside.server_id ? null : server_id
  return {
    server_id: shown,
    guild_id: shown,
    channel_id,
    level: choice.level,
    muted,
    muted_until: muted ? (choice.muted_until ?? 0) : 0,
  }
}

/** A user's choices, as they are shown to them at a moment in Unix seconds. */
export function notificationSettingsObject(
  choices: ReadonlyMap<string, NotificationChoice>,
  of: NotificationDefault,
  channel_id: Snowflake | null,
  now: number,
): NotificationSettings {
  const { server_id, default_message_notifications } = of
  const choice = choices.get(choiceKey(server_id, channel_id)) ?? noChoice
  return {
    ...choiceObject(choice, server_id, channel_id, now),
    effective: effectiveLevel(near(choices, server_id, channel_id), default_message_notifications, now),
  }
}

const near = (choices: ReadonlyMap<string, NotificationChoice>, server: Snowflake, channel: Snowflake | null) => ({
  server: choices.get(choiceKey(server, null)) ?? noChoice,
  channel: channel === null ? null : (choices.get(choiceKey(server, channel)) ?? noChoice),
})

/**
 * Whether a user wants to be told of something in a channel; the command needs
 * `notificationChoices`.
 */
export const wantsToKnow = (
  user: User,
  { server_id, default_message_notifications }: NotificationDefault,
  channel_id: Snowflake,
  isMention: boolean,
  now: number,
): boolean =>
  isNotified(
    effectiveLevel(near(choicesOf(user), server_id, channel_id), default_message_notifications, secondsAt(now)),
    isMention,
  )

/** A membership began or has ended, and with it what was chosen before. */
export function forgetServerChoices(draft: UserState, server: Snowflake): void {
  const choices = notificationChoiceFacts.of(draft).get(all)
  if (!choices) return
  const kept = [...choices].filter(([key]) => !key.startsWith(choiceKey(server, null)))
  notificationChoiceFacts.of(draft).set(all, new Map(kept))
}
