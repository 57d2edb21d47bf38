/** The licenses of packages whose code a bundle holds: they ask that their text comes with it. */
import { readFileSync, readdirSync } from "node:fs"
import { join } from "node:path"

/** @param inputs files that went into it, as esbuild names them: relative to the root, or from it on */
export function licensesOf(root, inputs) {
  const folders = new Set(inputs.flatMap(input => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(input)?.[0] ?? []))
  const texts = Array.from(folders, folder => {
    const { name, version, license } = JSON.parse(readFileSync(join(root, folder, "package.json"), "utf8"))
    const file = readdirSync(join(root, folder)).find(each => /^licen[cs]e/i.test(each))
    const text = file ? readFileSync(join(root, folder, file), "utf8").trim() : `License: ${license}`
    return `${name} ${version}\n\n${text}\n`
  })
  return texts.toSorted((one, other) => one.localeCompare(other)).join(`\n${"-".repeat(80)}\n\n`)
}
