/**
 * The index of invariants. A source file that guards something lists it in a header comment, one
 * invariant per line:
 *
 *     PIN1  A channel has at most `pinsPerChannel` pins, however many are pinned at once.
 *
 * The prefix belongs to one module. P1 to P19 are the promises of docs/internals/guarantees.md. A
 * test names in its title, before the colon, the invariants that it holds.
 */
import { readdirSync, readFileSync } from "node:fs"
import { basename, join } from "node:path"

interface Invariant {
  id: string
  file: string
  sentence: string
  /** Titles of tests by file. */
  tests: Map<string, string[]>
}

const declaration = /^ \* {3}([A-Z]+\d+) {2}(.+(?:\n \* {4,}\S.*)*)/gm
const titled = /["'`]((?:[A-Z]+\d+(?: to [A-Z]+\d+)?, )*[A-Z]+\d+(?: to [A-Z]+\d+)?): ([^"`\n]+)/g
const isTest = (file: string) => file.endsWith(".test.ts")
const isPromise = (id: string) => /^P\d+$/.test(id)

function typescriptIn(root: string, folders: readonly string[]): [file: string, text: string][] {
  return folders.flatMap(folder =>
    readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
      .filter(file => file.endsWith(".ts") && !file.includes("fixtures"))
      .sort()
      .map(file => [join(folder, file), readFileSync(join(root, folder, file), "utf8")] as [string, string]),
  )
}

/**
 * @returns every invariant under `root`, and what is wrong with them: a duplicate, one without a test, an unknown id.
 */
export function readInvariants(root: string): { invariants: Invariant[]; faults: string[] } {
  const files = typescriptIn(root, ["client", "src", "tests"])
  const byId = new Map<string, Invariant>()
  const faults: string[] = []

  for (const [file, text] of files.filter(([file]) => !isTest(file) && !file.startsWith("tests"))) {
    for (const [, id, lines] of text.matchAll(declaration)) {
      const sentence = lines!.replaceAll(/\s*\n \*\s+/g, " ").trim()
      const earlier = byId.get(id!)
      if (earlier !== undefined) faults.push(`${file}: ${id} is already declared in ${earlier.file}`)
      else if (isPromise(id!)) faults.push(`${file}: ${id} is the id of a promise`)
      else byId.set(id!, { id: id!, file, sentence, tests: new Map() })
    }
  }
  for (const [file, text] of files.filter(([file]) => isTest(file))) {
    for (const [, ids, title] of text.matchAll(titled)) {
      for (const id of ids!.split(/, | to /).filter(id => !isPromise(id))) {
        const invariant = byId.get(id)
        if (invariant === undefined) faults.push(`${file}: ${id} in a title is not declared anywhere`)
        else invariant.tests.set(file, [...(invariant.tests.get(file) ?? []), title!])
      }
    }
  }
  for (const { id, file, tests } of byId.values())
    if (tests.size === 0) faults.push(`${file}: no title of a test names ${id}`)
  return { invariants: [...byId.values()], faults }
}

/** The rows of the index: id and sentence, the file that guards it, the tests that hold it. */
export const invariantRows = (invariants: readonly Invariant[]): string[][] =>
  invariants.map(({ id, file, sentence, tests }) => [
    `**${id}** ${sentence}`,
    `[${basename(file)}](../../${file})`,
    [...tests].map(([path, titles]) => titles.map(title => `[${title}](../../${path})`).join("; ")).join("; "),
  ])
