import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
// @ts-expect-error plain JavaScript, because it runs before anything else is made
import { vendored } from "./bundle.mjs"
// @ts-expect-error plain JavaScript, because it runs before anything else is made
import { bundlePages } from "./bundle-pages.mjs"

interface Locked {
  readonly name?: string
  readonly version: string
  readonly license?: string
  readonly dev?: boolean
  readonly link?: boolean
  readonly optional?: boolean
}

const inModules = "node_modules/"

/**
 * The text of NOTICE: which packages come with the program or are installed for it, of every platform, by license. Of those that
 * only the build needs, it names what the build copies. Throws where a license is not known.
 */
export async function noticeText(root: string): Promise<string> {
  const { packages } = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as {
    packages: Record<string, Locked>
  }
  const { inputs } = (await bundlePages(root)) as { inputs: string[] }
  const ofPages = inputs.flatMap(input => /.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(input)?.[1] ?? [])
  const ofDocumentation = Object.values(vendored as Record<string, string>).map(file => file.split("/")[0]!)
  const copied = new Set([...ofDocumentation, ...ofPages])
  const byLicense = new Map<string, Set<string>>()
  for (const [path, { name, version, license, dev, link }] of Object.entries(packages)) {
    // The client is part of the project.
    if (!path.includes(inModules) || link) continue
    const installedAs = path.slice(path.lastIndexOf(inModules) + inModules.length)
    if (dev && !copied.has(installedAs)) continue
    const known = licenseOf(join(root, path), license)
    const alias = name === undefined || name === installedAs ? "" : ` (as ${name})`
    byLicense.set(known, (byLicense.get(known) ?? new Set()).add(`${installedAs} ${version}${alias}`))
  }
  const sections = [...byLicense]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([license, names]) => `${license}\n\n${[...names].sort().map(each => `  ${each}`).join("\n")}\n`) // prettier-ignore
  return `Starling is under the MIT License, see LICENSE.

These packages come with it or are installed for it. The text of each license lies in
the package, in node_modules; of code that the build copies it lies beside that code, in
dist/src/LICENSES, dist/src/web/built/LICENSES and dist/src/web/vendor.

This list is made by \`npm run docs\` of package-lock.json.

${sections.join("\n")}`
}

/** What the package declares; where its text is another, which counts, both are named. */
function licenseOf(folder: string, declared: string | undefined): string {
  if (!declared) throw new Error(`the license of ${folder} is not known`)
  const file = join(folder, "LICENSE")
  const isApache = existsSync(file) && /^\s*Apache License\s+Version 2\.0/.test(readFileSync(file, "utf8"))
  return isApache && !declared.includes("Apache-2.0") ? `Apache-2.0, declared as ${declared}` : declared
}
