import { isDeepStrictEqual } from "node:util"
import { fail } from "../../contract/core/errors.ts"
import { limits } from "../../contract/core/limits.ts"
import { messagingDefaults, type MessagingChoice } from "../../contract/accounts/messaging-settings.ts"
import { secondsAt } from "../../std/clock.ts"
import { focusKey, isOver, type KeptSetting } from "../../domain/accounts/settings.ts"
import type { UserState } from "../../domain/accounts/user-state.ts"
import { putMessagingSettings } from "../../storage/accounts/messaging-settings.ts"
import { deleteSetting, putSetting } from "../../storage/accounts/settings.ts"
import { renewed } from "./session-renewal.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import type { ActorKind } from "../../runtime/actor.ts"
import { defineFact } from "../shared/facts.ts"

/**
 * What a user and their clients have decided, among the commands of their home. They keep:
 *   SET1  A user has at most `settingsPerUser` keys under concurrent requests. The focused
 *       channel does not count.
 *   SET2  Settings that are sent together are all stored, or none.
 */
export interface SettingsCommands {
  /** What is left out stays as it is. */
  chooseMessaging(input: { changes: Partial<MessagingChoice> }): MessagingChoice
  /** Null: forgotten, if it was there. The answer stands in the order of the entries. */
  putSettings(input: { entries: readonly (readonly [key: string, value: string | null])[] }): {
    kept: { created_at: number; updated_at: number }[]
  }
  deleteSetting(input: { key: string }): { deleted: true }
}

/** Each of them is one fact of the home, under this key. */
const all = "all"

export const messagingFacts = defineFact<UserState, MessagingChoice>({
  keep: 1,
  load: async (storage, user) => {
    const found = await storage.messagingSettings.find(user)
    return new Map(found ? [[all, found]] : [])
  },
})

export const settingFacts = defineFact<UserState, ReadonlyMap<string, KeptSetting>>({
  keep: 1,
  load: async (storage, user) => new Map([[all, await storage.settings.keys(user)]]),
})
const needsSettings = () => [settingFacts.need(all)]

const keysOf = (user: Readonlied<UserState>, now: number): Map<string, KeptSetting> =>
  new Map([...(settingFacts.of(user).get(all) ?? [])].filter(([key, kept]) => !isOver(key, kept, now)))

export const settingsCommands: ActorKind<UserState, UserState, SettingsCommands>["commands"] = {
  chooseMessaging: {
    needs: () => [messagingFacts.need(all)],
    turn({ state: user }, { changes }) {
      const before = messagingFacts.of(user).get(all) ?? messagingDefaults
      const choice: MessagingChoice = { ...before, ...changes }
      if (isDeepStrictEqual(choice, before)) return { reply: choice }
      // Gateway and HTTP cache these with the session.
      const isShownOtherwise =
        choice.typing_indicators_enabled !== before.typing_indicators_enabled ||
        choice.read_receipts_enabled !== before.read_receipts_enabled
      return {
        apply: draft => {
          messagingFacts.of(draft).set(all, choice)
        },
        write: [putMessagingSettings({ user_id: user.id, ...choice })],
        publish: isShownOtherwise ? renewed(user) : [],
        reply: choice,
      }
    },
  },

  putSettings: {
    needs: needsSettings,
    turn({ state: user, now }, { entries }) {
      const updated_at = secondsAt(now)
      const keys = keysOf(user, updated_at)
      for (const [key, value] of entries)
        if (value === null) keys.delete(key)
        else keys.set(key, { created_at: keys.get(key)?.created_at ?? updated_at, updated_at })
      const counted = keys.size - (keys.has(focusKey) ? 1 : 0)
      if (counted > limits.settingsPerUser) throw fail("setting_limit") // SET1
      return {
        apply: draft => {
          settingFacts.of(draft).set(all, keys)
        },
        write: entries.map(([key, value]) => {
          const of = { user_id: user.id, key }
          return value === null ? deleteSetting(of) : putSetting({ ...of, value, ...keys.get(key)! })
        }),
        reply: { kept: entries.map(([key]) => ({ created_at: keys.get(key)?.created_at ?? updated_at, updated_at })) },
      }
    },
  },

  deleteSetting: {
    needs: needsSettings,
    turn({ state: user, now }, { key }) {
      const keys = keysOf(user, secondsAt(now))
      if (!keys.delete(key)) throw fail("setting_not_found", { message: settingNotFound(key) })
      return {
        apply: draft => {
          settingFacts.of(draft).set(all, keys)
        },
        write: [deleteSetting({ user_id: user.id, key })],
        reply: { deleted: true },
      }
    },
  },
}

export const settingNotFound = (key: string): string => `Setting '${key}' not found`
