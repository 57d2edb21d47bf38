import { channelActor } from "../../actors/channel.ts"
import { notificationChoiceObjects, notificationSettingsObject } from "../../actors/shared/notification-levels.ts"
import { serverActor } from "../../actors/server.ts"
import { userActor } from "../../actors/user.ts"
import type { routes } from "../../contract/accounts/notification-settings.ts"
import { secondsAt } from "../../std/clock.ts"
import type { Handlers } from "../server/handlers.ts"
import type { Http } from "../shared/http.ts"

export const notificationSettings = ({
  ask,
  storage,
  clock,
}: Http<"notificationSettings">): Handlers<typeof routes> => {
  const ofServer = (server: string, user: string) => ask(serverActor, server, { type: "readNotificationDefault", user })
  const ofChannel = (channel: string, user: string) =>
    ask(channelActor, channel, { type: "readChannelNotificationDefault", user })
  const shown = async (user: string, of: Awaited<ReturnType<typeof ofServer>>, channel: string | null) => {
    const choices = await storage.notificationSettings.find(user, of.server_id, channel)
    return notificationSettingsObject(choices, of, channel, secondsAt(clock()))
  }

  return {
    async listNotificationSettings({ caller: { user_id } }) {
      return notificationChoiceObjects(await storage.notificationSettings.ofUser(user_id), secondsAt(clock()))
    },

    async getServerNotificationSettings({ params: { server_id }, caller: { user_id } }) {
      return shown(user_id, await ofServer(server_id, user_id), null)
    },

    async putServerNotificationSettings({ params: { server_id }, body: patch, caller: { user_id } }) {
      const of = await ofServer(server_id, user_id)
      return ask(userActor, user_id, { type: "chooseNotifications", of, channel_id: null, patch })
    },

    async getChannelNotificationSettings({ params: { channel_id }, caller: { user_id } }) {
      return shown(user_id, await ofChannel(channel_id, user_id), channel_id)
    },

    async putChannelNotificationSettings({ params: { channel_id }, body: patch, caller: { user_id } }) {
      const of = await ofChannel(channel_id, user_id)
      return ask(userActor, user_id, { type: "chooseNotifications", of, channel_id, patch })
    },
  }
}
