import { emojiNamed } from "./emoji-names.ts"
import type { Names } from "./records.ts"

/**
 * Slack's mrkdwn as our Markdown. `&`, `<` and `>` stand in it as entities; what is in angle brackets
 * is a link, or names somebody or something. See docs/operate/import.md for where it is documented.
 */
export function slackText(text: string, names: Names): string {
  // Code comes through as it is: an odd part of the text stands between two marks.
  return text
    .split(/(```[\s\S]*?```|`[^`\n]+`)/)
    .map((part, i) => (i % 2 === 1 ? plain(part) : marked(part, names)))
    .join("")
}

const entities = (text: string) => text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&")

/** Links in code are only their text. */
const plain = (code: string) =>
  entities(code.replace(bracketed, (_, kind: string, to: string, shown?: string) => shown ?? kind + to))

/** A mark counts where a word begins and ends. */
const bold = /(?<![\p{L}\p{N}*])\*(?=[^\s*])([^\n*]*[^\s*])\*(?![\p{L}\p{N}*])/gu
const struck = /(?<![\p{L}\p{N}~])~(?=[^\s~])([^\n~]*[^\s~])~(?![\p{L}\p{N}~])/gu
const bracketed = /<([@#!]?)([^<>|\n]+)(?:\|([^<>\n]*))?>/g

/** What is set aside stands between two of these, which no text has. */
const mark = "\ufdd0"
const setAside = new RegExp(`${mark}(\\d+)${mark}`, "g")

function marked(text: string, names: Names): string {
  const held: string[] = []
  // What is in brackets is set aside: an address may hold what looks like a mark.
  const keep = (made: string) => `${mark}${held.push(made) - 1}${mark}`
  const free = text
    .replaceAll(mark, "")
    .replace(bracketed, (_, kind: string, what: string, shown?: string) => keep(named(kind, what, shown, names)))
    .replace(/:([a-z0-9_+'-]+(?:::skin-tone-[2-6])?):/g, (whole, name: string) => {
      const own = names.emoji(name)
      return own === undefined ? (emojiNamed(name) ?? whole) : keep(`<:${name}:${own}>`)
    })
    .replace(bold, "**$1**")
    .replace(struck, "~~$1~~")
  return entities(free).replace(setAside, (_, at: string) => held[Number(at)] ?? "")
}

function named(kind: string, what: string, shown: string | undefined, names: Names): string {
  if (kind === "@") {
    const user = names.user(what)
    return user === undefined ? `@${entities(shown ?? what)}` : `<@${user}>`
  }
  if (kind === "#") {
    const channel = names.channel(what)
    return channel === undefined ? `#${entities(shown ?? what)}` : `<#${channel}>`
  }
  if (kind === "!") {
    if (what === "channel" || what === "everyone") return "@everyone"
    if (what === "here") return "@here"
    const said = entities(shown ?? what)
    return what.startsWith("subteam^") && !said.startsWith("@") ? `@${said}` : said
  }
  const url = entities(what)
  if (shown === undefined || shown === what) return url
  return `[${entities(shown).replace(/[[\]]/g, "")}](${url.replaceAll(")", "%29").replaceAll(" ", "%20")})`
}
