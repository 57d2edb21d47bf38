/** What one session hears of the posts: each carries who sent it, its number, and when. */
export interface Stamp {
  readonly run: string
  readonly sender: string
  /** Rises by one for each post of the sender to this channel that was acknowledged. */
  readonly number: number
  readonly sentAtMs: number
}

export const written = ({ run, sender, number, sentAtMs }: Stamp, padding = ""): string =>
  `load ${run} ${sender} ${number} ${sentAtMs} ${padding}`.trimEnd()

export function readStamp(content: unknown): Stamp | undefined {
  const words = typeof content === "string" ? content.split(" ", 5) : []
  if (words.length < 5 || words[0] !== "load") return undefined
  return { run: words[1]!, sender: words[2]!, number: Number(words[3]), sentAtMs: Number(words[4]) }
}

/** Whether what a session hears is what was sent: nothing left out, nothing twice, nothing before its time. */
export class Order {
  readonly #last = new Map<string, number>()

  /** A sender may have begun before this session did. */
  isNext({ sender, number }: Stamp): boolean {
    const last = this.#last.get(sender)
    this.#last.set(sender, Math.max(number, last ?? 0))
    return last === undefined || number === last + 1
  }
}
