import { expect, test } from "vitest"
import { flameGraph } from "../../bench/flames/flame-graph.ts"
import { addProfile, newFrame, widest, type CpuProfile } from "../../bench/flames/profile.ts"

const call = (functionName: string, url = "file:///src/a.ts") => ({ functionName, url, lineNumber: 4, columnNumber: 0 })
const native = (functionName: string) => call(functionName, "")

/** 100 samples that ran: 30 in `a` of which 20 in `b`, 60 in `on` which only calls `b`, 10 of V8's own. */
const profile: CpuProfile = {
  nodes: [
    { id: 1, callFrame: native("(root)"), children: [2, 3, 5, 7] },
    { id: 2, callFrame: native("(idle)"), hitCount: 900 },
    { id: 3, callFrame: call("a"), hitCount: 10, children: [4] },
    { id: 4, callFrame: call("b2"), hitCount: 15, children: [8] },
    { id: 5, callFrame: call("on"), hitCount: 1, children: [6] },
    { id: 6, callFrame: call("b"), hitCount: 59 },
    { id: 7, callFrame: native("<b> & c"), hitCount: 10 },
    { id: 8, callFrame: call("b"), hitCount: 5 },
  ],
}
const locate = (url: string, line: number) => ({ file: url.replace("file:///", ""), line: line + 1 })

function tree(...profiles: CpuProfile[]) {
  const root = newFrame("all", { file: "", line: 0 })
  for (const one of profiles) addProfile(root, one, locate)
  return root
}

test("profiles are merged by caller, without the time in which nothing ran", () => {
  const root = tree(profile, profile)
  expect(root.total).toBe(200)
  const [a] = [...root.children.values()].filter(({ name }) => name === "a")
  expect(a).toMatchObject({ file: "src/a.ts", line: 5, total: 60, self: 20 })
  // `b2` is a name that the bundler had twice.
  expect([...a!.children.values()].map(({ name, total }) => [name, total])).toEqual([["b", 40]])
})

test("CPU of the thread that is in no sample is added to what runs outside of JavaScript", () => {
  const outside = (cpuUs: number) => {
    const root = tree({ ...profile, timeDeltas: [250, 240, 260, 90_000], cpuUs })
    return [root.total, [...root.children.values()].find(({ name }) => name === "(program)")?.self]
  }
  // 100 samples of about 255 µs.
  expect(outside(51_000)).toEqual([200, 100])
  expect(outside(20_000)).toEqual([100, undefined])
})

test("the widest functions are counted once per stack, and those that only pass on are left out", () => {
  expect(widest(tree(profile), 5).map(({ name, total, self }) => [name, total, self])).toEqual([
    ["b", 0.79, 0.79],
    ["a", 0.3, 0.1],
    ["<b> & c", 0.1, 0.1],
  ])
  expect(widest(tree(profile), 1)).toHaveLength(1)
})

test("a flame graph is well-formed, as wide as its samples, and needs no script", () => {
  const svg = flameGraph({ title: "Posts & more", subtitle: "today", root: tree(profile) })
  expect(svg).not.toContain("<script")
  expect(svg).toContain("<title>&lt;b&gt; &amp; c: 10.0 %, 10 samples</title>")
  const tags = [...svg.matchAll(/<(\/?)([a-z]+)[^>]*?(\/?)>/g)]
  const open: string[] = []
  for (const [, end, name, alone] of tags)
    if (end) expect(open.pop()).toBe(name)
    else if (!alone) open.push(name!)
  expect(open).toEqual([])
  const rows = new Map<string, number>()
  for (const [, y = "", wide] of svg.matchAll(/<rect x="[\d.]+" y="(\d+)" width="([\d.]+)" height="16"/g))
    rows.set(y, (rows.get(y) ?? 0) + Number(wide) + 0.5)
  // The first row is all of it, the next what `a` and `on` called.
  expect([...rows.values()].map(Math.round)).toEqual([1200, 948, 60])
})
