import { computed, signal } from "@preact/signals"

/** Where in the page a person is: what stands behind the `#`, so that the server needs one page only. */
export interface Place {
  readonly path: readonly string[]
  readonly query: URLSearchParams
}

const hash = signal(location.hash)
addEventListener("hashchange", () => (hash.value = location.hash))

export const place = computed<Place>(() => {
  const [path = "", query = ""] = hash.value.replace(/^#\/?/, "").split("?", 2)
  return { path: path.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(query) }
})

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

type Query = Readonly<Record<string, string | number | undefined>>

export function linkTo(path: readonly string[], query: Query = {}): string {
  const search = new URLSearchParams()
  for (const [key, value] of Object.entries(query))
    if (value !== undefined && value !== "") search.set(key, String(value))
  return `#/${path.map(encodeURIComponent).join("/")}${search.size > 0 ? `?${search}` : ""}`
}

export function go(path: readonly string[], query: Query = {}): void {
  const link = linkTo(path, query)
  // Who asks for the place where they are may have gone astray in it: it is told as a change.
  if (link === location.hash) dispatchEvent(new HashChangeEvent("hashchange"))
  else location.hash = link
}

/** Changes what the place says behind its `?`, without a new entry in the history. */
export function setQuery(changes: Query): void {
  const { path, query } = place.value
  history.replaceState(null, "", linkTo(path, { ...Object.fromEntries(query), ...changes }))
  hash.value = location.hash
}
