import { execFileSync } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { gzipSync } from "node:zlib"
import { afterEach, beforeEach, expect, test } from "vitest"
import type { Line } from "./conversation.ts"
import { readRecording } from "./recording.ts"

let folder = ""
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "recording-"))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

async function all(path: string): Promise<Line[]> {
  const lines: Line[] = []
  for await (const line of readRecording(path)) lines.push(line)
  return lines
}

const lines = Array.from({ length: 3_000 }, (_, n) => ({
  at: n,
  server: "s",
  channel: "c",
  author: "王小明",
  text: `${n}: \u2028 ünï\u{1F600}\n`.repeat((n % 7) + 1),
}))
const json = `${lines.map(line => JSON.stringify(line)).join("\n")}\n`

test("JSON lines are read to the last letter, gzipped or not", async () => {
  writeFileSync(join(folder, "plain"), json)
  writeFileSync(join(folder, "packed"), gzipSync(json))
  expect(await all(join(folder, "plain"))).toEqual(lines)
  expect(await all(join(folder, "packed"))).toEqual(lines)
})

test("a bad line is named by its number; a cut archive and a missing file are errors", async () => {
  writeFileSync(join(folder, "bad"), `${JSON.stringify(lines[0])}\n{"at":}\n`)
  await expect(all(join(folder, "bad"))).rejects.toThrow(/bad:2: /)
  writeFileSync(join(folder, "cut"), gzipSync(json).subarray(0, 500))
  await expect(all(join(folder, "cut"))).rejects.toThrow()
  await expect(all(join(folder, "none"))).rejects.toThrow(/ENOENT/)
})

test("a git repository is a conversation: authors, folders, commit messages in their order", async () => {
  const repository = join(folder, "project")
  mkdirSync(join(repository, "src", "deep"), { recursive: true })
  mkdirSync(join(repository, "docs"))
  let day = 1
  const git = (...args: string[]) =>
    execFileSync("git", ["-C", repository, ...args], {
      env: {
        PATH: process.env["PATH"],
        HOME: folder,
        GIT_CONFIG_NOSYSTEM: "1",
        GIT_AUTHOR_NAME: day % 2 ? "Zoë" : "Лев",
        GIT_AUTHOR_EMAIL: "a@example.com",
        GIT_COMMITTER_NAME: "c",
        GIT_COMMITTER_EMAIL: "c@example.com",
        GIT_AUTHOR_DATE: `2024-01-0${day}T00:00:00Z`,
        GIT_COMMITTER_DATE: `2024-01-0${day}T00:00:00Z`,
      },
    })
  const commit = (message: string, ...files: string[]) => {
    for (const file of files) writeFileSync(join(repository, file), message)
    git("add", ".")
    git("commit", "--quiet", "--allow-empty", "-m", message)
    day++
  }
  git("init", "--quiet")
  commit("first\n\n  body", "src/a", "src/deep/ü b", "docs/c", "README")
  commit("second", "docs/c")
  commit("nothing")
  expect(await all(repository)).toEqual([
    { at: 1_704_067_200, server: "project", channel: "src", author: "Zoë", text: "first\n\n  body" },
    { at: 1_704_153_600, server: "project", channel: "docs", author: "Лев", text: "second" },
    { at: 1_704_240_000, server: "project", channel: "root", author: "Zoë", text: "nothing" },
  ])
  await expect(all(folder)).rejects.toThrow(/git log failed/)
})
