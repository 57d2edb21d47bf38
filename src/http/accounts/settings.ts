import { settingNotFound } from "../../actors/accounts/settings.ts"
import { userActor } from "../../actors/user.ts"
import { fail } from "../../contract/core/errors.ts"
import { success } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"
import type { routes } from "../../contract/accounts/settings.ts"
import { secondsAt } from "../../std/clock.ts"
import { focusIn, focusKey, isOver, isValueTooLong, keyRefusal } from "../../domain/accounts/settings.ts"
import type { Handlers } from "../server/handlers.ts"
import { invalid } from "../server/validation.ts"
import type { Http } from "../shared/http.ts"

export const settings = ({ ask, storage, clock }: Http<"settings">): Handlers<typeof routes> => ({
  async listSettings({ caller }) {
    const rows = await storage.settings.list(caller.user_id)
    // Keys are anybody's words: an object with a prototype would take some of them for its own.
    const values = Object.create(null) as Record<string, string>
    for (const { key, value } of rows) values[key] = value
    return { settings: values, count: rows.length, limit: limits.settingsPerUser }
  },

  async getSetting({ params: { key }, caller }) {
    requireShort(key)
    const found = await storage.settings.find(caller.user_id, key)
    if (!found || isOver(key, found, secondsAt(clock())))
      throw fail("setting_not_found", { message: settingNotFound(key) })
    return found
  },

  async putSetting({ params: { key }, body: { value }, caller }) {
    const { kept } = await ask(userActor, caller.user_id, { type: "putSettings", entries: [entryOf(key, value)] })
    return { key, value, ...kept[0]! }
  },

  async putSettings({ body, caller }) {
    if (typeof body !== "object" || body === null || Array.isArray(body))
      throw invalid([{ loc: ["body"], msg: "must be an object of values by key", type: "object_type" }])
    const given = Object.entries(body)
    // Refused before anything is made of them: no set of so many fits.
    if (given.length > limits.settingsPerUser + 1) throw fail("setting_limit")
    const entries = given.map(([key, value]: [string, unknown]) => {
      if (!isExact(value))
        throw fail("setting_invalid", { message: "Invalid setting: a number is too large to be kept as it is" })
      return entryOf(key, typeof value === "string" ? value : JSON.stringify(value))
    })
    if (entries.length > 0) await ask(userActor, caller.user_id, { type: "putSettings", entries })
    return success
  },

  async deleteSetting({ params: { key }, caller }) {
    requireShort(key)
    await ask(userActor, caller.user_id, { type: "deleteSetting", key })
    return success
  },
})

/**
 * Whether every number in a value is what was sent: larger ones have lost their last digits. The
 * body bounds the depth.
 */
function isExact(value: unknown): boolean {
  if (typeof value === "number") return Math.abs(value) <= Number.MAX_SAFE_INTEGER
  return typeof value !== "object" || value === null || Object.values(value).every(isExact)
}

function requireShort(key: string): void {
  if (keyRefusal(key) === "setting_key_too_long") throw fail("setting_key_too_long")
}

/** What is to be kept under a key; null: nothing, because the client looks at no channel. */
function entryOf(key: string, value: string): readonly [string, string | null] {
  if (key === "") throw fail("setting_invalid", { message: "Invalid setting: a key has at least one character" })
  const refusal = keyRefusal(key)
  if (refusal) throw fail(refusal)
  if (isValueTooLong(value)) throw fail("setting_value_too_long")
  if (key !== focusKey) return [key, value]
  const focus = focusIn(value)
  if (!focus)
    throw invalid([{ loc: ["body", "value"], msg: "must be JSON with channel_id and server_id", type: "value_error" }])
  return [key, focus.isCleared ? null : value]
}
