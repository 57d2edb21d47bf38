/**
 * A server's address, of what people paste: its origin, the page that they see, or the root of the
 * API. Another path stays, since a proxy may serve it below one. @param option who names it
 */
export function addressOf(option: "baseUrl" | "url", given: string, scheme: "http" | "ws"): URL {
  const text = given.replace(/^(?:http|ws)(?=s?:\/\/)/, scheme)
  if (!text.startsWith(`${scheme}://`) && !text.startsWith(`${scheme}s://`))
    throw new TypeError(`${option}: ${given} is no address such as http://localhost:8000`)
  const url = new URL(text)
  url.hash = ""
  if (scheme === "http") url.search = ""
  url.pathname = url.pathname.replace(/\/(?:app|api\/v1)\/*$/, "/")
  return url
}

/** What the network says of a lost connection. Several failures in one have a code and no words. */
export function textOf(error: Error & { readonly code?: unknown }): string {
  if (error.message !== "") return error.message
  return typeof error.code === "string" ? error.code : error.name
}
