import { expect, test } from "vitest"
import { limits } from "../../contract/core/limits.ts"
import { mentionsIn } from "./mentions.ts"

const none = { users: [], roles: [], everyone: false, here: false }

test.each([
  ["", none],
  ["hello", none],
  ["<@1> and <@!2>, <@1> again", { ...none, users: ["1", "2"] }],
  ["<@&3><@&4>", { ...none, roles: ["3", "4"] }],
  ["@everyone", { ...none, everyone: true }],
  ["so, @here: look", { ...none, here: true }],
  ["@everyone. (@here)", { ...none, everyone: true, here: true }],
  ["👋@everyone👋", { ...none, everyone: true }],
  // No part of a word or an address.
  ["ada@everyone.example, @everyones, @here_, é@here, @hereé", none],
  ["@Everyone @HERE", none],
  // No ids.
  ["<@> <@x> <@ 1> <@1 <@-1> <@01> <@1.5> <@&> <@!&1> <#5>", none],
  [
    "<@9223372036854775807> <@9223372036854775808> <@99999999999999999999>",
    { ...none, users: ["9223372036854775807"] },
  ],
  // Code.
  ["`<@1>` <@2> ``<@3> ` <@4>`` <@5>", { ...none, users: ["2", "5"] }],
  ["```\n@everyone <@&1>\n``` @here", { ...none, here: true }],
  ["` <@1>", { ...none, users: ["1"] }],
  ["``` <@1> `` <@2> ` <@3>", { ...none, users: ["1", "2", "3"] }],
  ["<@`x`1>", none],
  ["`` ` `` <@1> ` <@2> `", { ...none, users: ["1"] }],
])("%j", (text, expected) => {
  expect(mentionsIn(text)).toEqual(expected)
})

test("of many different ones the first count, and @everyone counts wherever it stands", () => {
  const text = Array.from({ length: 300 }, (_, i) => `<@${i + 1}><@${i + 1}><@&${i + 1}>`).join("") + "@everyone"
  const found = mentionsIn(text)
  expect(found.users).toHaveLength(limits.mentionsPerMessage / 2)
  expect(found.roles).toHaveLength(limits.mentionsPerMessage / 2)
  expect(found.everyone).toBe(true)
})

test("the longest message of whatever kind takes no time", () => {
  const longest = limits.messageCharacters
  const runs = Array.from({ length: 88 }, (_, i) => "`".repeat(i + 1)).join("x")
  for (const text of ["`", "` ", "<@", "@", "@here", "<@1", "<@&9999999999999999999"])
    for (const one of [text.repeat(longest / text.length), runs, `${runs}x`.repeat(2)]) {
      const before = performance.now()
      for (let i = 0; i < 20; i++) mentionsIn(one)
      expect(performance.now() - before).toBeLessThan(400)
    }
})
