/**
 * What an event says, in one line that is safe to print: a terminal acts on control characters, and
 * people type them.
 */

/**
 * Control and format characters as `\u{…}`, but for the one that joins emoji; `allowed` are kept.
 */
export const clean = (text: string, allowed = ""): string =>
  text.replace(/(?!\u200d)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, one =>
    allowed.includes(one) ? one : `\\u{${one.codePointAt(0)!.toString(16)}}`,
  )

type Fields = Record<string, unknown>

const text = (value: unknown): string =>
  typeof value === "string" ? value : value === null || value === undefined ? "–" : JSON.stringify(value)
const name = (value: unknown) =>
  text((value as Fields | undefined)?.["username"] ?? (value as Fields | undefined)?.["name"])

/** Where a sentence tells more than the fields. What is not listed shows its fields. */
const sentences: Record<string, (d: Fields) => string> = {
  MESSAGE_CREATE: d => `in ${text(d["channel_id"])} ${text(d["author_username"])}: ${text(d["content"])}`,
  MESSAGE_UPDATE: d =>
    `in ${text(d["channel_id"])} ${text(d["author_username"])}, ${text(d["id"])}: ${text(d["content"])}`,
  MESSAGE_DELETE: d => `in ${text(d["channel_id"])} ${text(d["id"])}`,
  TYPING_START: d => `in ${text(d["channel_id"])} ${text(d["username"])} types`,
  TYPING_STOP: d => `in ${text(d["channel_id"])} ${text(d["user_id"])} has stopped`,
  PRESENCE_UPDATE: d =>
    `${text(d["user_id"])} is ${text(d["status"])}${d["custom_status"] ? `: ${text(d["custom_status"])}` : ""}`,
  GUILD_CREATE: d => `${text(d["name"])} (${text(d["id"])}), ${text(d["member_count"])} members`,
  GUILD_MEMBER_ADD: d => `${name(d["user"])} joined ${text(d["guild_id"])}`,
  GUILD_ROLE_CREATE: d => `${name(d["role"])} in ${text(d["guild_id"])}`,
  GUILD_ROLE_UPDATE: d => `${name(d["role"])} in ${text(d["guild_id"])}`,
  GUILD_MEMBERS_CHUNK: d =>
    `${(d["members"] as unknown[]).length} members of ${text(d["guild_id"])}, part ${Number(d["chunk_index"]) + 1} of ${text(d["chunk_count"])}`,
  CHANNEL_CREATE: d => `${text(d["name"])} (${text(d["id"])})`,
  CHANNEL_UPDATE: d => `${text(d["name"])} (${text(d["id"])})`,
}

const fields = (d: Fields): string =>
  Object.entries(d)
    .filter(([, value]) => value !== null && value !== undefined)
    .map(([key, value]) => `${key} ${text(value)}`)
    .join(", ")

const graphemes = new Intl.Segmenter()

/** @param maxLength characters at most, as a reader counts them */
export function gistOf(event: string, data: unknown, maxLength = Infinity): string {
  const d = (data ?? {}) as Fields
  const line = clean((sentences[event] ?? fields)(d))
  if (line.length <= maxLength) return line
  const characters = Array.from(graphemes.segment(line), one => one.segment)
  return characters.length <= maxLength ? line : `${characters.slice(0, maxLength - 1).join("")}…`
}
