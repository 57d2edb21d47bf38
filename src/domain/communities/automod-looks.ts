import type { Judged } from "./automod-match.ts"

/**
 * What a look at a message finds, made when the first rule asks for it. A hundred rules of one type
 * cost one look: only what differs from rule to rule is done for each of them.
 */
export function perMessage<T>(look: (judged: Judged) => T): (judged: Judged) => T {
  const made = new WeakMap<Judged, { readonly found: T }>()
  return judged => {
    let known = made.get(judged)
    if (!known) made.set(judged, (known = { found: look(judged) }))
    return known.found
  }
}
