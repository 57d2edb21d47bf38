import { userActor } from "../../actors/user.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import {
  messagingDefaults,
  type MessagingChoice,
  type MessagingSettings,
  type routes,
} from "../../contract/accounts/messaging-settings.ts"
import type { Handlers } from "../server/handlers.ts"
import type { Http } from "../shared/http.ts"

export const messagingSettings = ({ ask, storage }: Http<"messagingSettings">): Handlers<typeof routes> => ({
  getMessagingSettings: async ({ caller }) =>
    shown(caller.user_id, (await storage.messagingSettings.find(caller.user_id)) ?? messagingDefaults),

  async editMessagingSettings({ body, caller }) {
    const changes = Object.fromEntries(Object.entries(body).filter(([, value]) => value !== undefined))
    return shown(caller.user_id, await ask(userActor, caller.user_id, { type: "chooseMessaging", changes }))
  },
})

const shown = (user_id: Snowflake, choice: MessagingChoice): MessagingSettings => ({
  user_id,
  ...choice,
  max_message_length: null,
  max_attachment_size: null,
  max_attachments_per_message: null,
})
