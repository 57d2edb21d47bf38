import type { AutomodConfig } from "../../contract/communities/automod.ts"
import type { Matcher } from "./automod-match.ts"
import { perMessage } from "./automod-looks.ts"
import { withoutPiles, withoutUnseen } from "./automod-text.ts"

/** The rules about where a text leads. */

/**
 * `/invite/CODE`, with or without the host before it, and the path of our own interface; slashes as
 * browsers read them.
 */
const invite = /(?<![A-Za-z0-9])invites?[/\\]+([A-Za-z0-9]{1,64})(?![A-Za-z0-9])/gi

const codesIn = perMessage(({ content }) => {
  const text = withoutUnseen(content).replace(/%([0-7][0-9a-f])/gi, (_, code: string) =>
    String.fromCharCode(Number.parseInt(code, 16)),
  )
  return /invite/i.test(text) ? Array.from(text.matchAll(invite), ([, code]) => code!) : []
})

/** Without the pattern of one's own: see `ownInvites`. */
export function inviteLinks(config: AutomodConfig<"invite_links">): Matcher {
  const { block_all, code_length } = config
  const allowed = new Set(config.allowed_codes)
  return judged => {
    const code = block_all && codesIn(judged).find(code => code.length === code_length && !allowed.has(code))
    return code ? { matched: code, severity: "medium", metadata: { code } } : undefined
  }
}

/** No name is longer that leads anywhere. */
const longestHost = 253

/**
 * A host as browsers understand it: in small letters and punycode, without a dot at its end;
 * undefined: none.
 */
function hostOf(authority: string): string | undefined {
  try {
    const { hostname } = new URL(`http://${authority}/`)
    const host = hostname.replace(/\.+$/, "")
    return host !== "" && host.length <= longestHost ? host : undefined
  } catch {
    return undefined
  }
}

/**
 * The host that an entry of a list means, with or without what people paste around it; undefined:
 * none.
 */
export function listedHost(entry: string): string | undefined {
  const authority = entry
    .trim()
    .replace(/^[a-z][a-z0-9+.-]*:\/+/i, "")
    .replace(/^(\*\.|\.)/, "")
    .split(/[/?#\\]/, 1)[0]!
  if (authority === "" || /[@\s]/.test(authority)) return undefined
  return hostOf(authority)
}

/**
 * Where a link begins. What comes after a scheme and slashes is one whatever it is; after the
 * others only what has a dot. Within a path or a name nothing begins.
 */
const opening =
  /(?:https?|ftp|wss?):[/\\]+|(?<!\p{L})(?:https?|ftp|wss?):|(?<![\p{L}\p{N}\p{M}./\\:@-])\/\/|(?<![\p{L}\p{N}\p{M}./\\@=&?#%+-])(?=www\.)/giu
const endOfAuthority = /[/\\?#\s<>]/
/** What is no part of a name: it may stand around a link, or in what precedes an @. */
const around = /[^\p{L}\p{N}\p{M}._~:@%-]/u
/** What may be of a name, as browsers understand it; there are names of emoji. */
const named = /(?:[\p{L}\p{N}\p{M}._%-]|(?!\p{ASCII})\p{S})+/gu
const written = /[\p{L}\p{N}\p{M}._-]+/gu
const bearing = /[\p{L}\p{N}\p{M}]/u

/** As a name is written: without what stands before and behind its first and last letter. */
function trimmed(name: string): string {
  const characters = Array.from(name)
  const from = characters.findIndex(character => bearing.test(character))
  return characters.slice(from, characters.findLastIndex(character => bearing.test(character)) + 1).join("")
}

/** A text in which all that browsers read as a dot is one. */
const dotted = (text: string) => withoutPiles(text).normalize("NFKC").replaceAll("。", ".")

/** The hosts that a text links to. Stretches that are looked at do not overlap, or are short. */
function linkedHosts(content: string): string[] {
  const names = new Set<string>()
  const text = withoutUnseen(content)
  const add = (authority: string, isWeak: boolean) => {
    const address = /^\[[\da-f:.]+\]/i.exec(authority)
    if (address) names.add(address[0])
    // Behind what ends a link for some, it goes on for others, if a name follows.
    else
      for (const [at, name] of (dotted(authority).match(named) ?? []).entries())
        if ((at === 0 && !isWeak) || /\../.test(name)) names.add(name)
  }
  for (const found of text.matchAll(opening)) {
    const isWeak = !/[/\\]$/.test(found[0]) || found[0] === "//"
    const begin = found.index + found[0].length
    // Nobody is named before such a host, so it need not be looked for any further.
    const rest = isWeak ? text.slice(begin, begin + longestHost + 1) : text.slice(begin)
    const end = rest.search(endOfAuthority)
    const authority = end === -1 ? rest : rest.slice(0, end)
    const at = authority.lastIndexOf("@")
    add(authority.slice(at + 1), isWeak)
    // For some a link ends before the @.
    const cut = authority.search(around)
    if (cut !== -1 && cut < at) add(authority.slice(authority.lastIndexOf("@", cut) + 1, cut), isWeak)
  }
  return [...names].flatMap(name => {
    // What leads somewhere begins as it is written, and ends before what cannot be the end of a
    // name.
    const characters = Array.from(name)
    const last = characters.findLastIndex(character => bearing.test(character) || character === "]")
    return hostOf(characters.slice(0, last + 1).join("")) ?? []
  })
}

/** Words that could be hosts though nothing says that they are links. */
function bareHosts(content: string): string[] {
  const names = (dotted(withoutUnseen(content)).match(written) ?? []).flatMap(word => {
    const name = trimmed(word)
    return name.length <= longestHost && name.includes(".") ? [name.toLowerCase()] : []
  })
  return [...new Set(names)].flatMap(name => (/^[a-z0-9._-]+$/.test(name) ? name : (hostOf(name) ?? [])))
}

const hostsIn = perMessage(({ content }) => (/[.:/\u3002\uff0e\uff61]/.test(content) ? linkedHosts(content) : []))
const bareHostsIn = perMessage(({ content }) => bareHosts(content))

/** Whether a host or one that it is below is in a list. */
function isListed(host: string, list: ReadonlySet<string>): boolean {
  for (let at = 0; at !== -1;) {
    if (list.has(at === 0 ? host : host.slice(at))) return true
    const dot = host.indexOf(".", at)
    at = dot === -1 ? -1 : dot + 1
  }
  return false
}

const listOf = (entries: readonly string[]) => new Set(entries.flatMap(entry => listedHost(entry) ?? []))

export function externalLinks(config: AutomodConfig<"external_links">): Matcher {
  const { mode, block_all } = config
  const [whitelist, blacklist] = [listOf(config.whitelist), listOf(config.blacklist)]
  const isRefused = (host: string) =>
    block_all || mode === "whitelist" ? !isListed(host, whitelist) : isListed(host, blacklist)
  return judged => {
    const host =
      hostsIn(judged).find(isRefused) ??
      (mode === "blacklist" && blacklist.size > 0
        ? bareHostsIn(judged).find(bare => isListed(bare, blacklist))
        : undefined)
    return host === undefined ? undefined : { matched: host, severity: "medium", metadata: { host } }
  }
}
