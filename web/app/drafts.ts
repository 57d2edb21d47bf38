import type { Snowflake } from "../../client/contract.ts"

/** What is being written, by channel: kept while the tab is open and its person is signed in. */
const prefix = "starling.draft."

export const draftIn = (channel: Snowflake): string => sessionStorage.getItem(prefix + channel) ?? ""

export function keepDraft(channel: Snowflake, text: string): void {
  if (text) sessionStorage.setItem(prefix + channel, text)
  else sessionStorage.removeItem(prefix + channel)
}

export function eraseDrafts(): void {
  for (const key of Object.keys(sessionStorage)) if (key.startsWith(prefix)) sessionStorage.removeItem(key)
}
