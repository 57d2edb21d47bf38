import { expect, test } from "vitest"
import { ManualClock } from "../../tests/kit/manual-clock.ts"
import type { Log } from "../observability/log.ts"
import { silentLog } from "../observability/log.ts"
import { OwnerWatch } from "./owner-watch.ts"

/** Three shards, one of them this worker's own. */
function scene() {
  const clock = new ManualClock()
  const owners = new Map<number, string | null>([
    [0, "here"],
    [1, "there"],
    [2, null],
  ])
  const open = new Set<number>()
  const answering = new Set<string>()
  const dead = new Set<string>()
  const lines: string[] = []
  const looks = { answers: 0, refreshed: [] as number[] }
  const log = { ...silentLog, info: (_: object, line: string) => void lines.push(line) } as Log
  const watch = new OwnerWatch({
    directory: {
      shards: [...owners.keys()],
      ownerOf: shard => owners.get(shard),
      refresh: async shard => void looks.refreshed.push(shard),
    },
    view: {
      self: { id: "here", role: "web", host: "test", slot: 0 },
      isLiving: id => !dead.has(id),
      isDead: id => dead.has(id),
    },
    isOpen: shard => open.has(shard),
    async served(shard) {
      looks.answers++
      if (!answering.has(owners.get(shard)!)) throw new Error("no answer")
    },
    clock,
    log,
  })
  return { watch, owners, open, answering, dead, lines, looks, pass: () => clock.pass(1_000) }
}

test("ready once every shard is open here or its owner answers, and not before; the log says once what is waited for", async () => {
  const { watch, owners, open, answering, lines, looks, pass } = scene()
  watch.start().catch(() => {})
  await pass()
  expect(() => watch.check()).toThrow("shards without an owner that answers: 3")
  expect(new Set(looks.refreshed)).toEqual(new Set([0, 1, 2]))
  open.add(0)
  owners.set(2, "there")
  await pass()
  expect(() => watch.check()).toThrow("2")
  answering.add("there")
  await pass()
  expect(() => watch.check()).not.toThrow()
  expect(lines).toEqual(["waiting for owners of shards", "every shard has an owner"])
})

test("what was ready stays so: it does not look again when a shard moves or its owner dies", async () => {
  const { watch, owners, open, answering, dead, lines, looks, pass } = scene()
  open.add(0)
  answering.add("there")
  owners.set(2, "there")
  await watch.start()
  expect([lines, looks.answers]).toEqual([[], 1])
  dead.add("there")
  owners.set(1, null)
  open.clear()
  await pass()
  expect(() => watch.check()).not.toThrow()
  expect(looks.answers).toBe(1)
})

test("an owner that is known to be dead is not asked; nothing is looked at after the end", async () => {
  const { watch, open, dead, looks, pass } = scene()
  open.add(0)
  dead.add("there")
  watch.start().catch(() => {})
  await pass()
  expect(looks.answers).toBe(0)
  watch.stop()
  const before = looks.refreshed.length
  await pass()
  await pass()
  expect(looks.refreshed.length - before).toBeLessThanOrEqual(2)
  expect(() => watch.check()).toThrow("2")
})
