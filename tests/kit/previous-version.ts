import { execFile } from "node:child_process"
import { mkdtemp, rm, symlink } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"

const packed = fileURLToPath(new URL("../fixtures/previous-version/previous-version.tgz", import.meta.url))
const modules = fileURLToPath(new URL("../../node_modules", import.meta.url))

/** The version before this one, compiled, as `scripts/previous-version.mjs` has packed it; it runs with today's modules. */
export async function unpackPreviousVersion(): Promise<{ main: string; remove(): Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), "starling-previous-"))
  await promisify(execFile)("tar", ["-xzf", packed, "-C", folder])
  await symlink(modules, join(folder, "node_modules"))
  return {
    main: join(folder, "dist", "src", "main.js"),
    remove: () => rm(folder, { recursive: true, force: true }),
  }
}
