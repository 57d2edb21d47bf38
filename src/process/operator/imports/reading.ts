import { jsonItems, JsonProblem } from "../../../std/json-items.ts"
import { ArchiveProblem, type Archive } from "./archive.ts"
import type { Report } from "./report.ts"

/** Of one message, user or channel, with all that stands in it. */
export const maxItemBytes = 16 * 1_048_576

export interface ItemAt {
  readonly key: string | null
  readonly value: unknown
  readonly bytes: number
  /** File and line. */
  readonly at: string
}

/** The items of a JSON file. What is broken is reported, and the rest of the file read as far as it can be. */
export async function* itemsOf(
  archive: Archive,
  name: string,
  report: Report,
  lists: readonly string[] = [],
): AsyncGenerator<ItemAt, void> {
  try {
    for await (const item of jsonItems(archive.read(name), { lists, maxItemBytes })) {
      const at = `${name}:${item.line}`
      if ("problem" in item) report.broken(at, item.problem)
      else yield { key: item.key, value: item.value, bytes: item.bytes, at }
    }
  } catch (error) {
    if (error instanceof JsonProblem) report.broken(`${name}:${error.line}`, error.message)
    else if (error instanceof ArchiveProblem) report.broken(name, error.message)
    else throw error
  }
}
