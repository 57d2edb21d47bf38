import { z } from "zod"
import { Seconds, Success } from "../core/fields.ts"
import { limits } from "../core/limits.ts"
import { defineRoute } from "../core/registry.ts"

export const Setting = z
  .object({ key: z.string(), value: z.string(), created_at: Seconds, updated_at: Seconds })
  .meta({ id: "SettingResponse" })
export type Setting = z.infer<typeof Setting>

const byKey = z.object({
  key: z
    .string()
    .describe(
      `At most ${limits.settingKeyCharacters} characters. \`__internal…\` and \`bulk\` are reserved. \`_focused_channel\` is in no list and is deleted after an hour`,
    ),
})

/**
 * Keys and values as they come: a key may be any text, `__proto__` too, which schemas of objects
 * leave out.
 */
const Entries = z.unknown().meta({
  id: "SettingsBulkRequest",
  type: "object",
  additionalProperties: true,
  description: "Values by key. A value that is not a string is stored as JSON",
  examples: [{ theme: "dark", compact_mode: true }],
})

export const listSettings = defineRoute({
  method: "GET",
  path: "/users/@me/settings",
  summary: "List the settings that clients have stored for the caller",
  tag: "Settings",
  auth: "user",
  reply: z
    .object({ settings: z.record(z.string(), z.string()), count: z.int(), limit: z.int() })
    .meta({ id: "SettingsResponse" }),
  fails: [],
})

export const getSetting = defineRoute({
  method: "GET",
  path: "/users/@me/settings/:key",
  summary: "Get a setting",
  tag: "Settings",
  auth: "user",
  params: byKey,
  reply: Setting,
  fails: ["setting_key_too_long", "setting_not_found"],
})

export const putSetting = defineRoute({
  method: "PUT",
  path: "/users/@me/settings/:key",
  summary: "Store a setting",
  tag: "Settings",
  auth: "user",
  params: byKey,
  body: z
    .object({ value: z.string().describe(`At most ${limits.settingValueCharacters} characters`) })
    .meta({ id: "SettingRequest" }),
  example: { value: "dark" },
  reply: Setting,
  fails: ["setting_key_too_long", "setting_key_reserved", "setting_value_too_long", "setting_limit"],
})

export const putSettings = defineRoute({
  method: "PUT",
  path: "/users/@me/settings/bulk",
  summary: "Store several settings: all of them, or none if one is refused",
  tag: "Settings",
  auth: "user",
  body: Entries,
  example: { theme: "dark", locale: "en-GB" },
  reply: Success,
  fails: ["setting_key_too_long", "setting_key_reserved", "setting_value_too_long", "setting_limit", "setting_invalid"],
})

export const deleteSetting = defineRoute({
  method: "DELETE",
  path: "/users/@me/settings/:key",
  summary: "Delete a setting",
  tag: "Settings",
  auth: "user",
  params: byKey,
  reply: Success,
  fails: ["setting_key_too_long", "setting_not_found"],
})

export const routes = { listSettings, getSetting, putSettings, putSetting, deleteSetting }
