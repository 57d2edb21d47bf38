import type { Snowflake } from "../../client/contract.ts"
import type { KnownServer } from "../../client/state.ts"
import { pictureVersion } from "./heard.ts"
import { base, watch } from "./session.ts"

/** How a member of a server is called there. */
export function nameIn(server: KnownServer | undefined, user: Snowflake, otherwise: string): string {
  const member = server?.members.get(user)
  return member?.nickname ?? member?.username ?? otherwise
}

/** The page's policy takes no style of a text; properties it does. */
export function colorStyleIn(server: KnownServer | undefined, user: Snowflake): { color?: string } {
  const color = colorIn(server, user)
  return color === undefined ? {} : { color }
}

/** The colour of the highest role that has one. */
function colorIn(server: KnownServer | undefined, user: Snowflake): string | undefined {
  const roles = (server?.members.get(user)?.roles ?? []).flatMap(id => server!.roles.get(id) ?? [])
  const colored = roles.filter(({ color }) => color !== "#000000" && /^#[0-9a-f]{6}$/i.test(color))
  return colored.toSorted((one, other) => other.position - one.position)[0]?.color
}

export const avatarOf = (user: Snowflake, url?: string | null): string =>
  base + (url ?? `/api/v1/avatars/users/${user}`) + pictureVersion(user)
export const pathOnServer = (path: string): string => (path.startsWith("/") ? base + path : path)

/** The server of the store that has this channel. */
export function serverOfChannel(channel: Snowflake): [id: Snowflake, server: KnownServer] | undefined {
  for (const [id, server] of watch("servers").state.servers) if (server?.channels.has(channel)) return [id, server]
  return undefined
}

/** A name's first letters, for what has no picture. */
export const initials = (name: string): string =>
  name
    .split(/\s+/)
    .map(word => word.slice(0, (word.codePointAt(0) ?? 0) > 0xffff ? 2 : 1))
    .join("")
    .slice(0, 3)
    .toUpperCase()

/** A message's text for where it stands in one line, or is read aloud: with names for what is mentioned. */
export const plainText = (text: string, server: KnownServer | undefined): string =>
  text
    .slice(0, 300)
    // Who wants to know what is hidden looks at the message.
    .replace(/\|\|[^]+?(?:\|\||$)/g, "▒▒▒")
    .replace(/<@!?(\d{1,20})>/g, (whole, id: string) => `@${nameIn(server, id, whole)}`)
    .replace(/<#(\d{1,20})>/g, (whole, id: string) => `#${server?.channels.get(id)?.name ?? whole}`)
    .replace(/<(?:a?|sticker)(:[\p{L}\p{N}_]{1,32}:)\d{1,20}>/gu, "$1")
