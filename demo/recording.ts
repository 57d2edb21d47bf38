import { spawn } from "node:child_process"
import { randomBytes } from "node:crypto"
import { createReadStream } from "node:fs"
import { open, stat } from "node:fs/promises"
import { basename, resolve } from "node:path"
import { createGunzip } from "node:zlib"
import { gitLog, parseCommit, parseLine } from "./conversation.ts"
import type { Line } from "./conversation.ts"

/**
 * Reads a git repository (a folder) or JSON lines (a file, gzipped or not), one line at a time, in
 * its order.
 */
export async function* readRecording(path: string): AsyncGenerator<Line> {
  if ((await stat(path)).isDirectory()) yield* readGit(path)
  else yield* readJsonLines(path)
}

async function* readJsonLines(path: string): AsyncGenerator<Line> {
  const file = createReadStream(path)
  const input = (await isGzipped(path)) ? file.pipe(createGunzip()) : file
  // A pipe does not hand on the reader's failure.
  file.on("error", cause => input.destroy(cause))
  let number = 0
  // Not readline: it takes U+2028, which may stand in a JSON string, for the end of a line.
  for await (const json of split(input, "\n")) {
    number++
    if (json.trim() === "") continue
    try {
      yield parseLine(json)
    } catch (cause) {
      throw new Error(`${path}:${number}: ${(cause as Error).message}`, { cause })
    }
  }
}

async function isGzipped(path: string): Promise<boolean> {
  const file = await open(path)
  try {
    const { bytesRead, buffer } = await file.read(Buffer.alloc(2), 0, 2, 0)
    return bytesRead === 2 && buffer[0] === 0x1f && buffer[1] === 0x8b
  } finally {
    await file.close()
  }
}

async function* readGit(path: string): AsyncGenerator<Line> {
  const mark = randomBytes(16).toString("hex")
  const git = spawn("git", ["-C", path, ...gitLog(mark)], { stdio: ["ignore", "pipe", "pipe"] })
  let complaint = ""
  git.stderr.on("data", (chunk: Buffer) => {
    complaint += chunk.toString()
  })
  const failure = new Promise<string | undefined>(resolve => {
    git.once("error", cause => resolve(`git does not run: ${cause.message}`))
    git.once("close", code => resolve(code === 0 ? undefined : `git log failed with ${code}: ${complaint.trim()}`))
  })
  const server = basename(resolve(path))
  for await (const record of split(git.stdout, mark)) if (record !== "") yield parseCommit(server, record)
  const why = await failure
  if (why !== undefined) throw new Error(why)
}

/** The text between two separators, whatever the chunks. */
async function* split(input: NodeJS.ReadableStream, separator: string): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let pending = ""
  for await (const chunk of input) {
    pending += decoder.decode(chunk as Buffer, { stream: true })
    const parts = pending.split(separator)
    pending = parts.pop() ?? ""
    yield* parts
  }
  yield pending + decoder.decode()
}
