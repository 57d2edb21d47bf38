import { chown, mkdir, mkdtemp } from "node:fs/promises"
import { execFileSync } from "node:child_process"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, test } from "vitest"
import { postgresAccount } from "./postgres-place.ts"

const isRoot = process.getuid?.() === 0

test.skipIf(!isRoot)("as root, a database that nobody runs is warned of, and no other", async () => {
  const nobody = Number(execFileSync("id", ["-u", "nobody"], { encoding: "utf8" }))
  for (const [uid, warnings] of [
    [nobody, 1],
    [54_321, 0],
  ] as const) {
    const dataDir = await mkdtemp(join(tmpdir(), "starling-place-"))
    const data = join(dataDir, "postgres", "data")
    await mkdir(data, { recursive: true })
    await chown(data, uid, uid)
    const lines: unknown[] = []
    expect(await postgresAccount(dataDir, { warn: (...line) => void lines.push(line) })).toEqual({ uid, gid: uid })
    expect(lines).toHaveLength(warnings)
  }
})
