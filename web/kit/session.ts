import { signal, type ReadonlySignal } from "@preact/signals"

export interface Session {
  readonly token: ReadonlySignal<string | null>
  keep(token: string): void
  forget(): void
}

/** A token of this tab: another tab, or this one after it was closed, does not have it. */
export function tabSession(key: string): Session {
  const token = signal(sessionStorage.getItem(key))
  return {
    token,
    keep(value) {
      sessionStorage.setItem(key, value)
      token.value = value
    },
    forget() {
      sessionStorage.removeItem(key)
      token.value = null
    },
  }
}
