import { readFileSync, readdirSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"
import { expect, test } from "vitest"
import { builds, platformProblem, thisPlatform } from "./platform.ts"

const linux = { system: "linux", node: "v24.1.0", abi: "137" }

test("a glibc that is too old is said in one line, with what to do", () => {
  expect(platformProblem({ ...linux, glibc: "2.36" })).toBe(
    "uWebSockets.js needs glibc 2.38 or later for Node.js 24, and this system has 2.36: " +
      "take Debian 13, Ubuntu 24.04, Fedora 39 or later, or run Node.js 20, which needs 2.27",
  )
  expect(platformProblem({ ...linux, glibc: "2.17" })).not.toContain("Node.js 20")
  expect(platformProblem({ ...linux, glibc: undefined })).toMatch(/another C library, as Alpine/)
  for (const glibc of ["2.38", "2.41", "3.0"]) expect(platformProblem({ ...linux, glibc })).toBeUndefined()
  expect(platformProblem({ system: "linux", node: "v20.20.2", abi: "115", glibc: "2.36" })).toBeUndefined()
  expect(platformProblem({ system: "darwin", node: "v24.1.0", abi: "137", glibc: undefined })).toBeUndefined()
  expect(platformProblem({ ...linux, node: "v23.1.0", abi: "131", glibc: "2.41" })).toBe(
    "uWebSockets.js has no build for Node.js v23.1.0: run Node.js 20, 22, 24 or 25",
  )
  expect(platformProblem(thisPlatform())).toBeUndefined()
})

test("the table says what the binaries need", () => {
  const folder = dirname(createRequire(import.meta.url).resolve("uWebSockets.js"))
  const found = readdirSync(folder).flatMap(name => /^uws_linux_(?:x64|arm64)_(\d+)\.node$/.exec(name)?.[1] ?? [])
  expect(new Set(found)).toEqual(expect.objectContaining(new Set(Object.keys(builds))))
  for (const [abi, { glibc }] of Object.entries(builds))
    for (const machine of ["x64", "arm64"]) {
      const text = readFileSync(join(folder, `uws_linux_${machine}_${abi}.node`), "latin1")
      const minors = [...text.matchAll(/GLIBC_2\.(\d+)/g)].map(([, minor]) => Number(minor))
      expect(`2.${Math.max(...minors)}`, `${machine} ${abi}`).toBe(glibc)
    }
})

test("the README says it, too", () => {
  const readme = readFileSync(new URL("../../../README.md", import.meta.url), "utf8")
  for (const { node, glibc } of Object.values(builds)) expect(readme).toMatch(new RegExp(`\\| ${node} +\\| ${glibc}`))
})
