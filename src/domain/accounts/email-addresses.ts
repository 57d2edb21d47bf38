const label = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
const atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
const pattern = new RegExp(`^${atom}(?:\\.${atom})*@${label}(?:\\.${label})+$`)

/**
 * An address that mail can be sent to: a dotted local part of at most 64 characters, a host name
 * with a dot, 254 in all.
 */
export const isEmailAddress = (text: string): boolean =>
  text.length <= 254 && text.indexOf("@") <= 64 && pattern.test(text)

/**
 * Whether an address belongs to one of these domains or a part of one; with none named, every
 * address does.
 */
export function isOfDomain(email: string, domains: readonly string[]): boolean {
  const host = email.slice(email.lastIndexOf("@") + 1).toLowerCase()
  return domains.length === 0 || domains.some(domain => host === domain || host.endsWith(`.${domain}`))
}
