import type { ErrorCode } from "../../contract/core/errors.ts"
import { codePoints } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"

/** Says what a client looks at: in no list, and gone after a while. */
export const focusKey = "_focused_channel"
/** Seconds that it is kept. */
export const focusSeconds = 3600

/** When a setting was first and last written. Unix seconds. */
export interface KeptSetting {
  readonly created_at: number
  readonly updated_at: number
}
/** Whether what is kept under a key counts as absent, though nobody has forgotten it yet. */
export const isOver = (key: string, { updated_at }: KeptSetting, now: number): boolean =>
  key === focusKey && updated_at <= now - focusSeconds

const isReserved = (key: string): boolean => key.startsWith("__internal") || key === "bulk"

/** Why nothing may be kept under a key. */
export function keyRefusal(key: string): ErrorCode | undefined {
  if (codePoints(key) > limits.settingKeyCharacters) return "setting_key_too_long"
  return isReserved(key) ? "setting_key_reserved" : undefined
}

export const isValueTooLong = (value: string): boolean => codePoints(value) > limits.settingValueCharacters

/**
 * What the text of a focus says: whether the client looks at a channel; undefined: it is no such
 * text.
 */
export function focusIn(value: string): { readonly isCleared: boolean } | undefined {
  let said: unknown
  try {
    said = JSON.parse(value)
  } catch {
    return undefined
  }
  if (typeof said !== "object" || said === null) return undefined
  const { channel_id, server_id } = said as { channel_id?: unknown; server_id?: unknown }
  if (
    typeof channel_id !== "string" ||
    !(typeof server_id === "string" || server_id === null || server_id === undefined)
  )
    return undefined
  return { isCleared: channel_id === "0" }
}
