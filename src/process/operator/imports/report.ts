import { Refusal } from "../saying.ts"

/** What became of an export, counted; and what did not come, with the first places of each reason. */
export class Report {
  readonly #isStrict: boolean
  readonly #counts = new Map<string, number>()
  readonly #skipped = new Map<string, { count: number; places: string[] }>()

  /** `isStrict`: what is broken ends everything. */
  constructor(isStrict: boolean) {
    this.#isStrict = isStrict
  }

  count(what: string, by = 1): void {
    if (by > 0) this.#counts.set(what, (this.#counts.get(what) ?? 0) + by)
  }

  counted(what: string): number {
    return this.#counts.get(what) ?? 0
  }

  /** Something does not come, or not whole. */
  skip(reason: string, place?: string, by = 1): void {
    let why = printable(reason)
    if (by <= 0) return
    // What stands in an export does not decide how much is held of it.
    if (this.#skipped.size >= maxReasons && !this.#skipped.has(why)) why = "other reasons"
    const found = this.#skipped.get(why) ?? { count: 0, places: [] }
    this.#skipped.set(why, found)
    found.count += by
    if (place !== undefined && found.places.length < maxPlaces) found.places.push(printable(place))
  }

  /** Something cannot be read. `place`: file and line. */
  broken(place: string, problem: string): void {
    if (this.#isStrict) throw new Refusal(`${place}: ${problem} (--strict: stopped; what came before is kept)`)
    this.skip("could not be read", `${place}: ${problem}`)
  }

  text(): string {
    const lines = [...this.#counts].map(([what, count]) => `${String(count).padStart(10)}  ${what}`)
    if (this.#skipped.size > 0) lines.push("left out or changed:")
    for (const [why, { count, places }] of this.#skipped) {
      lines.push(`${String(count).padStart(10)}  ${why}`)
      lines.push(...places.map(place => `${" ".repeat(14)}${place}`))
    }
    return lines.join("\n")
  }
}

/** What an export says may be meant for a terminal. */
const printable = (text: string) => text.slice(0, 300).replace(/[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu, "?")

const maxPlaces = 10
const maxReasons = 100
