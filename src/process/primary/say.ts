import type { Log } from "../../observability/log.ts"

/** What people read: plain lines on stdout, beside the log. */
export const say = (line: string) => console.log(`starling: ${line}`)

/**
 * Why the program cannot do what it was told to: a sentence for who sits at a terminal, and a line of the log elsewhere, where
 * stderr is nothing but lines of the log.
 */
export function complain(log: Log, phrase: string, why: string): void {
  if (process.stderr.isTTY || !log.isLevelEnabled("error")) console.error(`starling: ${phrase}: ${why}`)
  else log.error({ why }, phrase)
}
