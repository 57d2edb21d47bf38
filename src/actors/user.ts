import type { Snowflake } from "../contract/core/fields.ts"
import { newAccount } from "../domain/accounts/accounts.ts"
import { type UserState, newUserState } from "../domain/accounts/user-state.ts"
import { serverSlotCommands, type ServerSlotCommands } from "./accounts/server-slots.ts"
import { insertSession } from "../storage/accounts/sessions.ts"
import { insertUser, type UserRow } from "../storage/accounts/users.ts"
import { accountCommands, type AccountCommands } from "./accounts/account.ts"
import { accountDeletionCommands, type AccountDeletionCommands } from "./accounts/account-deletion.ts"
import { botCommands, type BotCommands } from "./accounts/bots.ts"
import { avatarCommands, type AvatarCommands } from "./accounts/avatars.ts"
import { exportCommands, type ExportCommands } from "./accounts/exports.ts"
import { emailLinkCommands, type EmailLinkCommands } from "./accounts/email-links.ts"
import { emailRestorationCommands, type EmailRestorationCommands } from "./accounts/email-restoration.ts"
import { membershipsCommands, type MembershipsCommands } from "./communities/memberships.ts"
import { notificationLevelCommands, type NotificationLevelCommands } from "./shared/notification-levels.ts"
import { notificationCommands, type NotificationCommands } from "./accounts/notifications.ts"
import { pushSubscriptionCommands, type PushSubscriptionCommands } from "./accounts/push-subscriptions.ts"
import { linkTo, oauthCommands, type ExternalAccount, type OAuthCommands } from "./accounts/oauth.ts"
import { passkeyCommands, type PasskeyCommands } from "./accounts/passkeys.ts"
import { feedbackCommands, type FeedbackCommands } from "./service/feedback.ts"
import { reportCommands, type ReportCommands } from "./messages/reports.ts"
import { fileReportCommands, type FileReportCommands } from "./messages/file-reports.ts"
import { presenceCommands, type PresenceCommands } from "./social/presence.ts"
import { unlessPurged } from "./accounts/purged-account.ts"
import { readMentionCommands, type ReadMentionCommands } from "./messages/read-state.ts"
import { relayCommands, type RelayCommands } from "./shared/relay.ts"
import { renewSessions } from "./accounts/session-renewal.ts"
import { relationshipCommands, type RelationshipCommands } from "./social/relationships.ts"
import { expiry, newSession, signInCommands, type NewSession, type SignInCommands } from "./accounts/sign-in.ts"
import { settingsCommands, type SettingsCommands } from "./accounts/settings.ts"
import { accountStatusCommands, type AccountStatusCommands } from "./accounts/account-status.ts"
import { voiceUserCommands, type VoiceUserCommands } from "./voice/voice.ts"
import { defineActor, type HomeKind } from "../runtime/actor.ts"
import type { Storage } from "../storage/storage.ts"

/**
 * One user: the account, its sessions (SESS1 to SESS4 in sign-in.ts), its one-time tokens (OTT1,
 * OTT2 in one-time-tokens.ts), and what others share with the user.
 */
export interface UserCommands
  extends
    AccountStatusCommands,
    AccountDeletionCommands,
    ExportCommands,
    AccountCommands,
    AvatarCommands,
    BotCommands,
    SettingsCommands,
    NotificationCommands,
    PushSubscriptionCommands,
    NotificationLevelCommands,
    ReadMentionCommands,
    ServerSlotCommands,
    SignInCommands,
    EmailLinkCommands,
    EmailRestorationCommands,
    OAuthCommands,
    PasskeyCommands,
    FileReportCommands,
    ReportCommands,
    FeedbackCommands,
    RelationshipCommands,
    PresenceCommands,
    VoiceUserCommands,
    RelayCommands,
    MembershipsCommands {
  /**
   * Makes the account and its first session; null: none before the address is verified. The name
   * and the address are made unique by the database.
   */
  register(input: {
    user: Omit<UserRow, "id">
    session: NewSession | null
    /** Signs in with it from now on. */
    external?: ExternalAccount
  }): {
    user: UserRow
    session_id: Snowflake | null
  }
}

export const userHome: HomeKind<UserState, Storage> = {
  name: "user",
  load: (id, storage) => storage.users.load(id),
}

export const userActor = defineActor<UserState, UserState, UserCommands, Storage>({
  kind: "user",
  home: userHome,
  find: home => home,
  missing: "user_not_found",
  commands: {
    register: {
      create({ id, now, newId }, { user, session, external }) {
        const row: UserRow = { ...newAccount(user), id }
        const started = session && newSession(newId(), id, session, now)
        return {
          home: newUserState({ account: row, sessions: new Map(started ? [[started.id, started]] : []) }),
          write: [
            insertUser(row),
            ...(started ? [insertSession(started)] : []),
            ...(external ? [linkTo(id, external, now)] : []),
          ],
          publish: started ? [expiry(started)] : [],
          reply: { user: row, session_id: started?.id ?? null },
        }
      },
    },

    ...renewSessions(
      unlessPurged({
        ...signInCommands,
        ...accountStatusCommands,
        ...oauthCommands,
        ...passkeyCommands,
        ...fileReportCommands,
        ...reportCommands,
        ...feedbackCommands,
        ...accountDeletionCommands,
        ...exportCommands,
        ...emailLinkCommands,
        ...emailRestorationCommands,
        ...relationshipCommands,
        ...accountCommands,
        ...avatarCommands,
        ...botCommands,
        ...settingsCommands,
        ...notificationCommands,
        ...pushSubscriptionCommands,
        ...notificationLevelCommands,
        ...readMentionCommands,
        ...serverSlotCommands,
        ...voiceUserCommands,
        ...presenceCommands,
      }),
    ),

    ...relayCommands,
    ...membershipsCommands,
  },
})
