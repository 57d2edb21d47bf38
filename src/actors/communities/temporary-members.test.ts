import { expect, test } from "vitest"
import { ManualClock } from "../../../tests/kit/manual-clock.ts"
import { fail } from "../../contract/core/errors.ts"
import { silentLog } from "../../observability/log.ts"
import { TemporaryMembers } from "./temporary-members.ts"

const resumeWindowMs = 10_000

/** Who is there, and whose memberships ended where. */
function scene({ servers = ["1"], refuse = [] as string[] } = {}) {
  const clock = new ManualClock()
  const there = new Set<string>()
  const ended: string[] = []
  const members = new TemporaryMembers({
    store: {
      temporary: async users => users.flatMap(user_id => servers.map(server_id => ({ server_id, user_id }))),
    },
    end: async server => {
      if (refuse.includes(server)) throw fail("internal")
      ended.push(server)
    },
    isGone: user => !there.has(user),
    resumeWindowMs,
    clock,
    log: silentLog,
  })
  return {
    members,
    ended,
    goes() {
      there.delete("7")
      members.gone(["7"])
    },
    /**
     * The worker of the user's last session died: the user is offline, and nobody has recorded that
     * yet.
     */
    isLost: () => void there.delete("7"),
    comes() {
      there.add("7")
      members.back("7")
    },
    pass: (windows: number) => clock.pass(windows * resumeWindowMs),
  }
}

test("TEMP1: a user who came back has a whole window at the next disconnect, however old the first is", async () => {
  const { ended, goes, comes, isLost, pass, members } = scene()
  goes()
  await pass(0.5)
  comes()
  expect(members.isPending("7")).toBe(false)
  await pass(0.4)
  isLost()
  await pass(0.3)
  expect(ended).toEqual([])
  goes()
  await pass(0.9)
  expect(ended).toEqual([])
  await pass(0.2)
  expect(ended).toEqual(["1"])
  expect(members.isPending("7")).toBe(false)
})

test("TEMP1: a user who is back before their disconnect is recorded was not gone", async () => {
  const { ended, goes, comes, isLost, members, pass } = scene()
  comes()
  members.gone(["7"])
  await pass(0.9)
  isLost()
  await pass(0.2)
  expect(ended).toEqual([])
  goes()
  await pass(1.1)
  expect(ended).toEqual(["1"])
})

test("TEMP2: a server that cannot end it holds up none of the others, and is asked again", async () => {
  const refuse = ["1"]
  const { ended, goes, members, pass } = scene({ servers: ["1", "2"], refuse })
  goes()
  await pass(1.1)
  expect(ended).toEqual(["2"])
  expect(members.isPending("7")).toBe(true)
  refuse.pop()
  await pass(4)
  expect(ended).toContain("1")
  expect(members.isPending("7")).toBe(false)
})
