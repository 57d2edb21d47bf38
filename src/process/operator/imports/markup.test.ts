import { expect, test } from "vitest"
import { discordText } from "./discord.ts"
import { emojiNamed } from "./emoji-names.ts"
import { mattermostText } from "./mattermost.ts"
import type { Names } from "./records.ts"
import { slackText } from "./slack-markup.ts"
import { partsOf, usernamesLike } from "./usernames.ts"

const own: Record<string, string> = {
  U1: "11",
  C1: "12",
  "team/dock": "13",
  ada: "11",
  "a.b": "14",
  "5": "15",
  gull: "16",
  "7": "17",
}
const look = (id: string) => own[id]
const names: Names = { user: look, channel: look, role: look, emoji: look }

const ofSlack = [
  ["*bold* and _slanted_ and ~gone~", "**bold** and _slanted_ and ~~gone~~"],
  ["2*3*4 *a* *b c*, * not *", "2*3*4 **a** **b c**, * not *"],
  ["<@U1> <@U1|ada> <@U9|bo> <#C1|quay> <#C9|far> <#C9>", "<@11> <@11> @bo <12> #far #C9".replace("<12>", "<#12>")],
  ["<!here> <!channel> <!subteam^S1|@crew> <!date^1^{date}|today>", "@here @everyone @crew today"],
  ["<https://a.example/x_y_z?a=1&amp;b=2|a [b] *c*> <https://b.example/*x*>", "[a b *c*](https://a.example/x_y_z?a=1&b=2) https://b.example/*x*"],
  ["&lt;b&gt; &amp;amp; `*x* &lt;` ```\n*y* <https://c.example>\n```", "<b> &amp; `*x* <` ```\n*y* https://c.example\n```"],
  [":+1: :gull: :nothing: 12:30:15", "👍 <:gull:16> :nothing: 12:30:15"],
  ["&gt; quoted", "> quoted"],
] // prettier-ignore
test.each(ofSlack)("of Slack %s", (given, expected) => expect(slackText(given, names)).toBe(expected))

test.each([
  [
    "@ada, @a.b. @bo x@ada.example @all ~dock ~far `@ada`",
    "<@11>, <@14>. @bo x@ada.example @everyone <#13> ~far `@ada`",
  ],
  [":heart::gull:", "❤️:gull:"],
])("of Mattermost %s", (given, expected) => expect(mattermostText(given, "team", names)).toBe(expected))

test("of Discord ids, and names that the exporter wrote in their place", () => {
  expect(discordText("<@5> <@!5> <@&5> <#7> <#8> <a:gull:1> <:other:2> <t:0:R> `<@5>`", [], names)).toBe(
    "<@15> <@15> <@&15> <#17> #channel <a:gull:16> :other: 1970-01-01 00:00 UTC `<@5>`",
  )
  const mentioned = [{ id: "5", name: "an", nickname: "Ann Lee" }, { id: "7", name: "ann", nickname: "Ann" }] // prettier-ignore
  expect(discordText("@Ann Lee and @Ann", mentioned, names)).toBe("<@15> and <@17>")
})

test("hostile texts take no longer than their length allows", () => {
  const long = 300_000
  for (const piece of ["<", "*a", "`", "```", ":a", "~ ", "@a.", "<:a:", "&lt;"]) {
    const text = piece.repeat(long / piece.length)
    for (const made of [slackText(text, names), mattermostText(text, "team", names), discordText(text, [], names)])
      expect(made.length).toBeGreaterThan(0)
    expect(partsOf(text, 4_000).join("").length).toBeLessThanOrEqual(long)
  }
})

test("a text is cut between lines, else between words, else anywhere; nothing is lost", () => {
  expect(partsOf("aaa bbb ccc", 8)).toEqual(["aaa bbb", "ccc"])
  expect(partsOf("aaaa\nb c ddd", 8)).toEqual(["aaaa", "b c ddd"])
  expect(partsOf("😀".repeat(5), 2)).toEqual(["😀😀", "😀😀", "😀"])
  expect(partsOf(" ", 2)).toEqual([])
})

test("names become usernames that may be taken", () => {
  const first = (name: string, refuses: (name: string) => boolean = () => false) =>
    usernamesLike(name, refuses).next().value
  expect(["José M.", "李", "ab", "x".repeat(40)].map(name => first(name))).toEqual([
    "Jose_M",
    "user_",
    "user_ab",
    "x".repeat(32),
  ])
  expect(first("admin", name => name === "admin" || name === "user_admin")).toBe("imported_2")
  expect([
    ...taking(
      usernamesLike("ada", () => false),
      3,
    ),
  ]).toEqual(["ada", "ada_2", "ada_3"])
})

function* taking<T>(source: Generator<T, void>, count: number) {
  for (let i = 0; i < count; i++) yield source.next().value as T
}

test("emoji by their names, with tones of skin", () => {
  expect(["+1", "wave::skin-tone-4", "tada::skin-tone-2", "nothing"].map(emojiNamed)).toEqual([
    "👍",
    "👋🏽",
    "🎉",
    undefined,
  ])
})
