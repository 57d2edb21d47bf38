import { expect, test } from "vitest"
import {
  chooseListeners,
  compare,
  fitName,
  parseCommit,
  parseLine,
  plan,
  topFolder,
  unsendable,
  username,
} from "./conversation.ts"
import type { Line } from "./conversation.ts"

const line = (server: string, channel: string, author: string, text: string): Line => ({
  at: 1,
  server,
  channel,
  author,
  text,
})

test("a JSON line is taken as it stands, and a line that lacks something is refused", () => {
  const text = "  two\n lines \u{1F600}"
  expect(parseLine(JSON.stringify({ ...line("s", "c", "Zoë", text), more: 1 }))).toEqual(line("s", "c", "Zoë", text))
  for (const bad of ["", "null", "[]", '{"at":1}', JSON.stringify({ ...line("s", "c", "a", "t"), text: 5 })]) {
    expect(() => parseLine(bad)).toThrow()
  }
})

test("a commit is a message in the folder that it touches most", () => {
  const record = "1795248655\0Zoë ñ\0first\n\nbody line\n\0\0\na/x\0b/y\0b/z ü\0r\0"
  expect(parseCommit("repo", record)).toEqual({
    at: 1_795_248_655,
    server: "repo",
    channel: "b",
    author: "Zoë ñ",
    text: "first\n\nbody line",
  })
  expect(parseCommit("repo", "1\0A\0merge\n\0\0")).toMatchObject({ channel: "root", text: "merge" })
  expect(() => parseCommit("repo", "fatal: not a repository")).toThrow("unexpected")
})

test("files in no folder are in the channel root; a tie goes to the folder named first", () => {
  expect(topFolder([])).toBe("root")
  expect(topFolder(["README", "a/x"])).toBe("root")
  expect(topFolder(["b/x", "a/x"])).toBe("b")
  expect(topFolder(["README", "a/x", "a/y/z"])).toBe("a")
})

test("every name in any script becomes a username of its own", () => {
  const names = ["José Valim", "王小明", "🦄", "", "__", "Ａｎｎａ", "x".repeat(80), "admin", "ab", "Иван", "ab"]
  const made = names.map((name, index) => username(name, index, "k3x9"))
  for (const one of made) expect(one).toMatch(/^[a-z0-9_]{3,32}$/)
  expect(new Set(made).size).toBe(names.length)
  expect(made[0]).toBe("jose_valim_1_k3x9")
  expect(made[1]).toBe("user_2_k3x9")
  expect(made[5]).toBe("anna_6_k3x9")
  expect(username("José Valim", 0)).toBe(username("José Valim", 0))
  expect(username("y".repeat(80), 3_165)).toHaveLength(32)
})

test("only what the server refuses is skipped, and counted by its reason", () => {
  expect(unsendable(" \n x ")).toBeUndefined()
  expect(unsendable("\u{1F600}".repeat(4_000))).toBeUndefined()
  const { skipped, posts, authors } = plan(
    ["fine", " \n", "", "x".repeat(4_001), "a\0b", "\ud800"].map((text, i) => line("s", "c", `author ${i}`, text)),
  )
  expect(Object.fromEntries(skipped)).toEqual({
    blank: 2,
    "longer than 4000 characters": 1,
    "U+0000 or a lone surrogate": 2,
  })
  expect({ posts, authors }).toEqual({ posts: 1, authors: 1 })
})

test("the plan keeps the order of a channel, and one name in two servers is two people", () => {
  const made = plan([
    line("one", "a", "Ada", "1"),
    line("two", "a", "Ada", "2"),
    line("one", "b", "Lin", "3"),
    line("one", "a", "Lin", "4"),
    line("one", "a", "Ada", "5"),
  ])
  expect(made).toMatchObject({ authors: 3, posts: 5, channels: 3 })
  const [one, two] = made.servers
  expect(one!.channels.map(({ name, posts }) => [name, posts.map(({ text, author }) => author.name + text)])).toEqual([
    ["a", ["Ada1", "Lin4", "Ada5"]],
    ["b", ["Lin3"]],
  ])
  expect(two!.authors[0]!.username).not.toBe(one!.authors[0]!.username)
  expect(one!.authors.map(({ messages }) => messages)).toEqual([2, 2])
})

test("listeners are the most talkative, and every server has one first", () => {
  const { servers } = plan([
    ...["a", "b", "b", "c"].map(author => line("big", "x", author, "t")),
    line("small", "x", "d", "t"),
  ])
  const names = (count: number) => chooseListeners(servers, count).map(({ author }) => author.name)
  expect(names(2)).toEqual(["b", "d"])
  expect(names(3)).toEqual(["b", "d", "a"])
  expect(names(50)).toHaveLength(4)
})

test("a loss, a double, a wrong order and a stranger are each found", () => {
  const right = { lost: 0, doubled: 0, disordered: 0, foreign: 0 }
  expect(compare([4, 5, 9], [4, 5, 9])).toEqual(right)
  expect(compare([4, 5, 9], [4, 9])).toEqual({ ...right, lost: 1 })
  expect(compare([4, 5, 9], [4, 5, 5, 9, 4])).toEqual({ ...right, doubled: 2 })
  expect(compare([4, 5, 9], [5, 4, 9])).toEqual({ ...right, disordered: 1 })
  expect(compare([4, 5, 9], [4, 5, 9, 7])).toEqual({ ...right, foreign: 1 })
})

test("names are cut and padded to what the server takes", () => {
  expect(fitName(" a ", { min: 2, max: 100 })).toBe("a_")
  expect(fitName("\u{1F600}".repeat(120), { min: 2, max: 100 })).toBe("\u{1F600}".repeat(100))
})
