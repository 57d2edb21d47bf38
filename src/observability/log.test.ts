import { expect, test } from "vitest"
import { createLog, silentLog, type Log } from "./log.ts"

function record(write: (log: Log) => void) {
  const lines: string[] = []
  write(createLog({ level: "debug", process: "web", worker: "web-1" }, { write: line => void lines.push(line) }))
  return { text: lines.join(""), lines: lines.map(line => JSON.parse(line) as Record<string, unknown>) }
}

test("a line is one JSON object with ISO time, level, place and phrase", () => {
  const { lines } = record(log => log.warn({ shard: 7 }, "lease lost"))
  expect(lines).toEqual([
    expect.objectContaining({ level: "warn", process: "web", worker: "web-1", shard: 7, msg: "lease lost" }),
  ])
  expect(lines[0]!["time"]).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
})

test("a fact about another process does not stand under a name that the line has already", () => {
  const { text, lines } = record(log => {
    log.info({ pid: 7, worker: "web-2", level: 3 }, "one")
    log.child({ process: "job" }).info("two")
  })
  expect(lines[0]).toMatchObject({ pid: process.pid, of_pid: 7, worker: "web-1", of_worker: "web-2", of_level: 3 })
  expect(lines[1]).toMatchObject({ process: "web", of_process: "job" })
  for (const name of ["level", "time", "process", "worker", "pid", "msg"])
    expect(text.split(`"${name}":`), name).toHaveLength(3)
})

test("a child carries its request id, and its children too", () => {
  const { lines } = record(log => log.child({ request_id: "r1" }).child({ shard: 3 }).info("here"))
  expect(lines[0]).toMatchObject({ request_id: "r1", shard: 3, msg: "here" })
})

test.each([
  "token",
  "password",
  "authorization",
  "cookie",
  "email",
  "content",
  "secret",
  "Authorization",
  "set-cookie",
  "new_password",
])("%s is hidden at any depth", name => {
  const { text, lines } = record(log => {
    log.info({ [name]: "S3CRET" }, "one")
    log.info({ a: { [name]: "S3CRET" } }, "two")
    log.info({ a: { b: [{ c: { d: { [name]: { inside: "S3CRET" } } } }] } }, "five")
    log
      .child({ [name]: "S3CRET" })
      .child({ a: { [name]: ["S3CRET"] } })
      .info("child")
    log.info({ err: Object.assign(new Error("x"), { [name]: "S3CRET" }) }, "error")
  })
  expect(lines).toHaveLength(5)
  expect(lines[0]![name]).toBe("[hidden]")
  expect(text).not.toContain("S3CRET")
})

test("an error shows what went wrong but not the row or command it went wrong on", () => {
  const refused = Object.assign(new Error("duplicate key value"), {
    code: "23505",
    detail: "Key (email)=(ada@example.org) already exists.",
    command: { name: "get", args: ["T0KEN"] },
  })
  const { text, lines } = record(log => {
    log.error({ err: new Error("commit failed", { cause: refused }) }, "batch failed")
    log.error(refused, "bare")
  })
  expect(lines[0]!["err"]).toMatchObject({
    message: "commit failed",
    cause: { code: "23505", message: "duplicate key value" },
  })
  expect(lines[1]!["err"]).toMatchObject({ type: "Error", code: "23505" })
  expect(text).not.toMatch(/ada@example|T0KEN/)
})

test("odd values do not stop a line", () => {
  const loop: Record<string, unknown> = {}
  loop["self"] = loop
  const { lines } = record(log =>
    log.info({ loop, bytes: Buffer.from("body"), big: 1n, none: null, at: new Date(0) }, "odd"),
  )
  expect(lines[0]).toMatchObject({ bytes: "[4 bytes]", big: 1, none: null, at: "1970-01-01T00:00:00.000Z", msg: "odd" })
})

test("lines below the level and silentLog write nothing", () => {
  expect(record(log => log.trace("no")).lines).toEqual([])
  silentLog.child({ a: 1 }).fatal("no")
})
