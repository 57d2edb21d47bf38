import fc from "fast-check"
import { describe, expect, test } from "vitest"
import { awkwardStrings } from "../../../tests/kit/strings.ts"
import {
  automodRuleTypes,
  type AutomodAction,
  type AutomodRule,
  type AutomodRuleType,
} from "../../contract/communities/automod.ts"
import { Failure } from "../../contract/core/errors.ts"
import { codePoints } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"
import { consequencesOf, excerpt, inOrder, judge as judgeInTurn, type Broken, type Verdict } from "./automod.ts"
import type { Judged, RecentPost } from "./automod-match.ts"
import {
  checkedActions,
  checkedConfig,
  isWithinBounds,
  noteMeasured,
  requireSoundPatterns,
  unmeasured,
} from "./automod-rules.ts"
import { recentPost, withPost } from "./automod-spam.ts"
import { compiledRule, hasPattern, judgeText, measuredPatterns } from "./automod-texts.ts"

const loneSurrogate = /\p{Surrogate}/u

let ids = 0
function rule(rule_type: AutomodRuleType, config: object, more: Partial<AutomodRule> = {}): AutomodRule {
  return {
    id: String(++ids),
    server_id: "1",
    name: rule_type,
    rule_type,
    config: checkedConfig(rule_type, config),
    actions: checkedActions([{ action_type: "delete_message" }]),
    applied_roles: [],
    exempt_roles: [],
    exempt_channels: [],
    priority: 0,
    check_all: false,
    enabled: true,
    created_at: 0,
    updated_at: 0,
    created_by: "1",
    updated_by: "1",
    ...more,
  }
}
const now = 1_800_000_000_000
const said = (content: string, more: Partial<Judged> = {}): Judged => ({
  content,
  channel_id: "10",
  roles: [],
  recent: [],
  classifiers: [],
  now,
  ...more,
})
/** What rules make of a message, with what is judged outside of the turn. */
function judge(rules: readonly AutomodRule[], judged: Judged): Pick<Verdict, "broken" | "later"> {
  const first = judgeInTurn(rules, judged)
  const verdicts = judgeText(judged, first.unread.map(compiledRule))
  const known = new Map(first.unread.map(({ config }, at) => [config, verdicts[at]!]))
  const { broken, later, unread } = known.size === 0 ? first : judgeInTurn(rules, { ...judged, verdicts: known })
  expect(unread).toEqual([])
  return { broken, later }
}
/** What a text breaks of a rule. */
const found = (of: AutomodRule, content: string, more: Partial<Judged> = {}): Broken | undefined =>
  judge([of], said(content, more)).broken[0]
const trips = (type: AutomodRuleType, config: object) => {
  const one = rule(type, config)
  return (content: string, more: Partial<Judged> = {}) => found(one, content, more) !== undefined
}

test("what stands beside a text is judged with it, and makes nothing of the text better", () => {
  const beside = (text: string, more = "all of this is quite harmless, and there is very much of it") => ({
    content: `${text}\n${more}`,
    text,
  })
  const of =
    (type: AutomodRuleType, config: object) =>
    (said: { content: string; text: string }, more = {}) =>
      trips(type, config)(said.content, { ...said, ...more })
  const word = of("keyword", { keywords: ["bad"] })
  expect([word(beside("bad")), word(beside("good", "bad")), word(beside("good"))]).toEqual([true, true, false])
  const pattern = of("regex", { patterns: [{ pattern: "^bad$", name: "bad" }] })
  expect([pattern(beside("bad")), pattern(beside("good"))]).toEqual([true, false])
  const caps = of("caps_percentage", { max_percentage: 70, min_length: 5 })
  expect([caps(beside("LOUD WORDS")), caps(beside("quiet words"))]).toEqual([true, false])
  // What was posted before is known by its text.
  const recent = ["1", "2"].map(id => recentPost(id, now - 1_000, "buy this"))
  const spam = of("message_spam", { duplicate_threshold: 3 })
  expect([spam(beside("buy this"), { recent }), spam(beside("hello"), { recent })]).toEqual([true, false])
})

describe("keyword", () => {
  test("whole words, in any case of letters, whatever the script", () => {
    const isBad = trips("keyword", { keywords: ["bad", "straße", "çok kötü", "@evil", "плохо", "İstanbul", "c++"] })
    for (const text of [
      "bad",
      "so BAD!",
      "(bad)",
      "bad-mannered",
      "STRASSE",
      "Straße",
      "ÇOK KÖTÜ",
      "@evil",
      "hi @evil",
      "ПЛОХО.",
      "istanbul İSTANBUL",
      "C++ is",
      "ｂａｄ",
      "b\u200Bad",
      "ba\u00ADd",
      "👋bad👋",
    ])
      // prettier-ignore
      expect(isBad(text), text).toBe(true)
    for (const text of [
      "badly",
      "sinbad",
      "bad1",
      "bädbad",
      "straßen",
      "@evils",
      "плохой",
      "b ad",
      "",
      "bad\u0301ly",
      "xbad\u0323",
    ])
      expect(isBad(text), text).toBe(false)
  })

  test("marks over and through letters hide no word, vowel signs make another", () => {
    const isBad = trips("keyword", { keywords: ["bad", "café", "कम", "ﷺ"] })
    for (const text of [
      "bad\u0336",
      "b\u0336a\u0336d\u0336",
      "b\u20dda\u20ddd\u20dd",
      "bad\u0301",
      "bad\u0301\u0317!",
      "!\u0301bad",
      "cafe\u200d\u0301",
      "cafe\u0338\u0301",
      "कम",
      "ﷺ",
    ])
      expect(isBad(text), text).toBe(true)
    for (const text of ["कमी", "bad\u0336ly", "cafe\u200d", "bäd"]) expect(isBad(text), text).toBe(false)
  })

  test("of words that look alike the gravest counts", () => {
    const graded = rule("keyword", { keywords: ["Bad", "bad"], severity_map: { bad: "high", Bad: "low" } })
    expect(found(graded, "BAD")).toMatchObject({ matched: "bad", severity: "high" })
    const short = rule("keyword", { keywords: ["ab", "xab"], severity_map: { ab: "critical" }, whole_word: false })
    expect(found(short, "xab")).toMatchObject({ matched: "ab", severity: "critical" })
  })

  test("parts of words, the case of letters, and how severe each is", () => {
    const part = trips("keyword", { keywords: ["bad"], whole_word: false })
    expect([part("sinBADs"), part("b a d")]).toEqual([true, false])
    const exact = trips("keyword", { keywords: ["Bad"], case_sensitive: true })
    expect([exact("Bad"), exact("bad")]).toEqual([true, false])
    const graded = rule("keyword", {
      keywords: ["he", "hers", "she", "ushers"],
      severity_map: { hers: "high", ushers: "critical" },
      whole_word: false,
    })
    expect(found(graded, "she")).toMatchObject({ matched: "she", severity: "medium" })
    expect(found(graded, "xhersx")).toMatchObject({ matched: "hers", severity: "high" })
    expect(found(graded, "ushers")).toMatchObject({ matched: "ushers", severity: "critical" })
  })

  test("finds what looking for each word finds", () => {
    const letters = fc.string({ unit: fc.constantFrom("a", "b", "ä"), maxLength: 12 })
    fc.assert(
      fc.property(
        fc.array(
          letters.filter(word => word !== ""),
          { minLength: 1, maxLength: 8 },
        ),
        letters,
        (words, text) => {
          const isFound = found(rule("keyword", { keywords: words, whole_word: false }), text) !== undefined
          expect(isFound).toBe(words.some(word => text.includes(word)))
        },
      ),
    )
  })
})

test("regex: RE2 patterns, each with its flags", () => {
  const patterns = [
    { pattern: "fr[e3]{2}\\s+money", name: "money", severity: "high" },
    { pattern: "^Exact$", case_sensitive: true, multiline: true },
  ]
  const one = rule("regex", { patterns })
  expect(found(one, "get FR33 money now")).toMatchObject({
    matched: "FR33 money",
    severity: "high",
    metadata: { pattern: "money" },
  })
  expect(found(one, "line\nExact\nline")).toMatchObject({ matched: "Exact", severity: "medium" })
  expect(found(one, "exact")).toBeUndefined()
})

test("mention_spam: users, roles, all together, everyone", () => {
  const users = (count: number, id = (at: number) => at + 1) =>
    Array.from({ length: count }, (_, at) => `<@${at % 2 ? "!" : ""}${id(at)}>`).join(" ")
  const usual = trips("mention_spam", {})
  expect([usual(users(5)), usual(users(6)), usual("@everyone"), usual("<@x> @ada ".repeat(20))]).toEqual([
    false, true, false, false,
  ]) // prettier-ignore
  expect([usual("<@&1><@&2><@&3>"), usual("<@&1><@&2><@&3><@&4>")]).toEqual([false, true])
  const total = trips("mention_spam", { max_user_mentions: 10, max_role_mentions: 10, max_total_mentions: 3 })
  expect([total("<@1> <@&2> @here"), total("<@1> <@&2> @here @everyone")]).toEqual([false, true])
  const unique = trips("mention_spam", { count_unique_only: true })
  expect([unique(users(9, () => 7)), unique(users(6))]).toEqual([false, true])
  const everyone = trips("mention_spam", { block_everyone: true })
  expect([
    everyone("hi @everyone!"),
    everyone("@here"),
    everyone("me@everyone.example"),
    everyone("@everyones"),
  ]).toEqual([true, true, false, false])
})

describe("message_spam", () => {
  const posts = (...texts: [secondsAgo: number, text: string][]) =>
    texts.map(([ago, text], at) => recentPost(String(at + 1), now - ago * 1000, text))

  test("too many within the window", () => {
    const isSpam = trips("message_spam", { max_messages: 3, window_seconds: 10, duplicate_threshold: 30 })
    const recent = posts([30, "a"], [9, "b"], [5, "c"], [1, "d"])
    expect(isSpam("e", { recent })).toBe(true)
    expect(isSpam("e", { recent: recent.slice(0, 3) })).toBe(false)
    expect(isSpam("e", { recent, edited: "4" }), "an edit is no further message").toBe(false)
  })

  test("the same again and again, or nearly", () => {
    const isSpam = trips("message_spam", { max_messages: 30 })
    const offer = "Buy cheap watches at my shop today"
    const recent = posts([50, offer], [20, `${offer.toUpperCase()}!`])
    expect(isSpam(offer, { recent })).toBe(true)
    expect(isSpam("Buy  cheap watches at my shop  today 1", { recent })).toBe(true)
    expect(isSpam("I bought a watch yesterday, it was cheap", { recent })).toBe(false)
    expect(isSpam(offer, { recent: recent.slice(1) })).toBe(false)
    expect(isSpam(offer, { recent: posts([70, offer], [20, offer]) }), "one is too old").toBe(false)
    expect(isSpam(offer, { recent: posts([50, offer], [20, offer], [5, "?"]), edited: "3" }), "made by an edit").toBe(
      true,
    )
    expect(isSpam(offer, { recent: posts([50, offer], [20, offer]), edited: "2" })).toBe(false)
    expect(isSpam("k", { recent: posts([5, "a"], [4, "b"]) })).toBe(false)
  })

  test("what is remembered is bounded, and follows edits", () => {
    let recent: readonly RecentPost[] = []
    for (let at = 1; at <= 40; at++) recent = withPost(recent, recentPost(String(at), now, `text ${at}`))
    expect(recent).toHaveLength(limits.automod.postsRemembered)
    expect(recent.at(-1)!.id).toBe("40")
    const edited = withPost(recent, recentPost("39", now + 5, "Other  TEXT"))
    expect(edited.find(({ id }) => id === "39")).toEqual({ id: "39", at: now, text: "other text" })
    expect(recentPost("1", now, "🐦".repeat(4000)).text.length).toBeLessThanOrEqual(500)
  })

  test("an old message that is edited takes nobody's place; what is out of the longest window is forgotten", () => {
    const post = (id: number, secondsAgo: number) => recentPost(String(id), now - secondsAgo * 1000, `text ${id}`)
    const idsOf = (list: readonly RecentPost[]) => list.map(({ id }) => id)
    const recent = [post(5, 50), post(7, 30), post(9, 10)]
    expect(withPost(recent, post(2, 3000))).toBe(recent)
    expect(idsOf(withPost(recent, post(8, 20)))).toEqual(["5", "7", "8", "9"])
    expect(idsOf(withPost([post(1, limits.automod.windowSeconds), post(2, 3000)], post(9, 0)))).toEqual(["2", "9"])
    let full: readonly RecentPost[] = []
    for (let id = 100; id < 130; id++) full = withPost(full, post(id, 130 - id))
    const isSpam = trips("message_spam", { max_messages: 30, duplicate_threshold: 2 })
    for (let id = 1; id < 30; id++) full = withPost(full, post(id, 2000 - id))
    expect(isSpam("text 100", { recent: full })).toBe(true)
  })
})

test("invite_links: codes of this service, but for those that are allowed, and a pattern of one's own", () => {
  const one = rule("invite_links", { allowed_codes: ["AbCdEfGhIjKl"], pattern: "elsewhere\\.example/j/(\\w+)" })
  const isInvite = (text: string) => found(one, text) !== undefined
  expect(found(one, "join https://chat.example/invite/abcdefghijk1")?.matched).toBe("abcdefghijk1")
  for (const text of [
    "chat.example/invites/abcdefghijk1",
    "/channels/invites/abcdefghijk1",
    "HTTPS://X/INVITE/abcdefghijk1?x",
    "elsewhere.example/j/abc",
    "chat.example/invite%2Fabcdefghijk1",
    "chat.example/inv%69te/abcdefghijk1",
    "chat.example/invite/abcdef%67hijk1",
    "chat.example/in\u200Bvite/abcdef\u2060ghijk1",
    "chat.example/invite//abcdefghijk1",
    "chat.example\\invite\\abcdefghijk1",
  ])
    expect(isInvite(text), text).toBe(true)
  for (const text of [
    "https://chat.example/invite/AbCdEfGhIjKl",
    "/invite/short",
    "invite/abcdefghijk12",
    "abcdefghijk1",
    "you are invited",
  ])
    expect(isInvite(text), text).toBe(false)
  const many = trips("invite_links", { pattern: "x/(\\w+)", allowed_codes: ["ok"] })
  expect([many("x/ok ".repeat(20)), many("x/ok ".repeat(21))]).toEqual([false, true])
  const own = trips("invite_links", { block_all: false, pattern: "x/(\\w+)", allowed_codes: ["ok"] })
  expect([own("/invite/abcdefghijk1"), own("x/ok x/no"), own("x/ok")]).toEqual([false, true, false])
})

test("external_links: hosts and what is below them, however they are written", () => {
  const black = rule("external_links", { blacklist: ["evil.example", "https://*.münchen.example/path"] })
  const isBlack = (text: string) => found(black, text) !== undefined
  for (const text of [
    "https://evil.example",
    "HTTP://EVIL.EXAMPLE/x",
    "see https://a.b.evil.example:8080/?q",
    "https://good.example@evil.example/",
    "https://good.example,@evil.example",
    "[x](https://evil.example)",
    "//evil.example",
    "www.evil.example",
    "evil.example/free",
    "https://evil.example.",
    "https:\\\\evil.example",
    "https://xn--mnchen-3ya.example",
    "https://www.MÜNCHEN.example",
    "https://e\u200Bvil.example",
    "https://evil。example",
    "https://%65vil.example",
    "https://ok.example?https://evil.example",
    "go to evil.example!",
    "_evil.example_",
    "**evil.example**",
    "“evil.example”",
    "«evil.example»",
    "evil.example—now",
    "👉evil.example👈",
    "see:evil.example",
    "/evil.example",
    "#evil.example",
    "evil。example",
    "EVIL．example",
    "ev\u00ADil.example",
    "MÜNCHEN.example",
    "https:evil.example",
    "https://“evil.example”",
    "[https://evil.example]",
    "https://evil.example,@good.example",
    'https://good.example"@evil.example',
    "https://ⓔvil.example",
  ])
    // prettier-ignore
    expect(isBlack(text), text).toBe(true)
  for (const text of [
    "https://notevil.example",
    "https://evil.example.org",
    "https://good.example/evil",
    "evil example",
    "https://",
    "https://[::1]:99999/",
    "1.5 or 2.0",
    "evil.examples",
    "notevil.example",
    "evil.example.org",
    "evil. example",
  ])
    expect(isBlack(text), text).toBe(false)
  expect(found(black, "https://A.evil.example/x")).toMatchObject({ matched: "a.evil.example", severity: "medium" })

  const white = trips("external_links", { mode: "whitelist", whitelist: ["good.example"] })
  expect([
    white("https://good.example/x (https://docs.good.example)"),
    white("https://other.example"),
    white("a.b c.d"),
  ]).toEqual([false, true, false])
  for (const text of [
    "https://good.example@other.example",
    "https://good.example\uFF0F@other.example",
    'https://good.example"@other.example',
    "https://other.example,@good.example",
    "https://good.example,.other.example",
    "https://good.example👈.other.example",
    "https://😀good.example",
    "https://good.example.other.example",
    "https://intranet",
    "https://[::1]/",
    "http:other.example",
    "see //other.example now",
    "(www.other.example)",
    "see:www.other.example",
  ])
    expect(white(text), text).toBe(true)
  for (const text of [
    "https://good.example”",
    "“https://good.example”",
    "https://good.example，",
    "(https://good.example…)",
    "https://good.example…&",
    "https://good.example…=",
    "https://good.example, and so on",
    "https://good.example👈",
    "_https://good.example_",
    "~~https://good.example~~",
    "https://a_b.good.example/",
    "https://good.example:8080",
    "https://user:word@good.example",
    "https://good.example/a//b.c/www.x.y?u=www.x.y",
    "see //comment here",
    "www.good.example!",
    "http: a.b",
    "news:a.b",
  ])
    expect(white(text), text).toBe(false)
  const all = trips("external_links", { block_all: true, whitelist: ["good.example"] })
  expect([all("https://x.example"), all("https://good.example"), all("no link")]).toEqual([true, false, false])
})

test("mass_emoji: graphemes and custom ones, by number and by share", () => {
  const usual = trips("mass_emoji", {})
  expect([usual("🎉".repeat(11)), usual("great 🎉🎉"), usual("🎉🎉🎉🎉"), usual("🎉🎉🎉🎉🎉"), usual("hello")]).toEqual([
    true, false, false, true, false,
  ]) // prettier-ignore
  const few = trips("mass_emoji", { max_emoji: 2, max_percentage: 100 })
  expect([few("👩‍👩‍👧‍👦 🏳️‍🌈"), few("👩‍👩‍👧‍👦 🏳️‍🌈 👋🏽"), few("🇺🇳🇩🇪"), few("1️⃣2️⃣3️⃣"), few("123 #*"), few("© ™ ®")]).toEqual([
    false, true, false, true, false, false,
  ]) // prettier-ignore
  expect(few("<:a1:1><a:b2:2><:c3:3>")).toBe(true)
  // Joined to one grapheme, but seen one by one.
  expect([few("🎉\u200d🎉\u200d🎉"), usual("text " + Array(500).fill("😀").join("\u200d"))]).toEqual([true, true])
  expect([few("🏳\u200d🌈 👩🏽‍❤️‍💋‍👨🏻"), few("❤ ❤️"), few("🕵🏽‍♂️ 🕵‍♀")]).toEqual([false, false, false])
  const unicode = trips("mass_emoji", { max_emoji: 2, max_percentage: 100, count_custom: false })
  expect([unicode("<:a1:1><:a1:1><:a1:1>"), unicode("🎉🎉🎉")]).toEqual([false, true])
  const custom = trips("mass_emoji", { max_emoji: 2, max_percentage: 100, count_unicode: false })
  expect([custom("<:a1:1><:a1:1><:a1:1>"), custom("🎉🎉🎉")]).toEqual([true, false])
})

test("caps_percentage: of letters that have a case", () => {
  const usual = trips("caps_percentage", {})
  expect([usual("STOP SHOUTING AT ME"), usual("Stop shouting at me"), usual("OK"), usual("ВСЕМ ПРИВЕТ СЕГОДНЯ")]).toEqual([
    true, false, false, true,
  ]) // prettier-ignore
  expect([
    usual("/SHOUT AT EVERYBODY"),
    usual("你好你好你好你好你好你好"),
    usual("1234567890 !!!"),
    usual("<:SMILE_ALL_DAY:1> ok"),
  ]).toEqual([false, false, false, false])
  expect([usual("<STOP> <SHOUTING> <AT> <ME>"), usual("<@1> <@!2> <@&3> <#4> <a:LOUD:5> ok")]).toEqual([true, false])
  expect(trips("caps_percentage", { ignore_commands: false })("/SHOUT AT EVERYBODY")).toBe(true)
})

test("repeated_chars: long runs, and how many", () => {
  const usual = trips("repeated_chars", {})
  expect([
    usual("nooooooo"),
    usual("nooooooo heeeeeey aaaaaah"),
    usual("a".repeat(18)),
    usual("A".repeat(9) + "a".repeat(9)),
  ]).toEqual([false, true, true, true])
  expect([usual(" ".repeat(50)), usual("1".repeat(18)), usual("hello")]).toEqual([false, true, false])
  for (const text of ["a\u200b", "❤️", "e\u0301", "b\u0301", "aＡ", "👋🏽", "🎉"])
    expect(usual(text.repeat(60)), text).toBe(true)
  expect([usual("ab".repeat(60)), usual("👋🏽👋🏿".repeat(30)), usual("🇺🇳🇩🇪".repeat(9))]).toEqual([false, false, false])
  const other = trips("repeated_chars", { ignore_numbers: true, ignore_whitespace: false })
  expect([other("1".repeat(18)), other("\n".repeat(18))]).toEqual([false, true])
})

const custom = (categories: Record<string, number>, threshold = 0.5) => ({ custom: { categories, threshold } })

test("ai_moderation: what a classifier says, once it was asked; nothing said passes", () => {
  const one = rule("ai_moderation", { backend: "custom", categories: ["Hate"], score_threshold: 0.8, severity: "high" })
  const classifiers = ["custom"] as const
  expect(judge([one], said("x"))).toEqual({ broken: [], later: [] })
  expect(judge([one], said("x", { classifiers }))).toEqual({ broken: [], later: [one] })
  for (const scores of [{}, custom({}), custom({ hate: 0.79 }), custom({ spam: 1 })])
    expect(judge([one], said("x", { classifiers, scores }))).toEqual({ broken: [], later: [] })
  const scores = custom({ hate: 0.8, spam: 1 })
  expect(judge([one], said("x", { classifiers, scores })).broken[0]).toMatchObject({
    severity: "high",
    metadata: { backend: "custom", category: "hate", score: 0.8 },
  })
  const any = rule("ai_moderation", { backend: "custom" })
  expect(found(any, "x", { scores: custom({ a: 0.7, b: 0.9 }) })?.metadata).toMatchObject({ category: "b" })
  expect(found(any, "x", { scores: custom({ a: 0.4 }, 0.5) }), "below the classifier's own threshold").toBe(undefined)
  expect(found(any, "x", { scores: custom({ a: 0.4 }, 0.3) })?.metadata).toMatchObject({ score: 0.4 })
})

test("rules are looked at by priority; the first that is broken is the last, unless it says check_all", () => {
  const words = (more: Partial<AutomodRule>) => rule("keyword", { keywords: ["bad"] }, more)
  const [low, high, highest] = [
    words({ priority: -1 }),
    words({ priority: 5 }),
    words({ priority: 9, check_all: true }),
  ]
  const hit = (rules: AutomodRule[], more: Partial<Judged> = {}) =>
    judge(inOrder(rules), said("bad", more)).broken.map(one => one.rule.id)
  expect(hit([low, high])).toEqual([high.id])
  expect(hit([low, highest, high])).toEqual([highest.id, high.id])
  expect(hit([words({ enabled: false })])).toEqual([])
  expect(hit([words({ exempt_channels: ["10"] }), low])).toEqual([low.id])
  const exempt = words({ exempt_roles: ["7"] })
  expect([hit([exempt]), hit([exempt], { roles: ["7"] })]).toEqual([[exempt.id], []])
  const applied = words({ applied_roles: ["7"] })
  expect([hit([applied]), hit([applied], { roles: ["8", "7"] })]).toEqual([[], [applied.id]])
  const asked = rule("ai_moderation", { backend: "openai" }, { priority: 7 })
  expect(judge(inOrder([asked, high]), said("bad", { classifiers: ["openai"] }))).toEqual({
    broken: [expect.objectContaining({ rule: high })],
    later: [asked],
  })
  const first = words({ priority: 8 })
  expect(judge([first, asked], said("bad", { classifiers: ["openai"] })).later, "nobody is asked for nothing").toEqual(
    [],
  )
  const only = said("bad", { classifiers: ["openai"], scores: custom({ a: 1 }) })
  expect(judge([asked], only), "of which nobody has told").toEqual({ broken: [], later: [] })
})

test("of consequences that contradict each other the hardest happens, once", () => {
  const broken = (...actions: Partial<AutomodAction>[][]): Broken[] =>
    actions.map(list => ({
      rule: rule("keyword", { keywords: ["x"] }, { actions: checkedActions(list) }),
      matched: "x",
      severity: "low",
    }))
  const timeouts = consequencesOf(
    broken([{ action_type: "timeout_user" }], [{ action_type: "timeout_user", duration_seconds: 60, reason: "why" }]),
  )
  expect(timeouts).toMatchObject({ isRefused: false, timeoutSeconds: 300, reason: "why" })
  const all = consequencesOf(
    broken(
      [{ action_type: "kick_user" }, { action_type: "delete_message", reason: "secret", notify_user: false }],
      [{ action_type: "ban_user" }, { action_type: "timeout_user" }, { action_type: "alert_moderators" }],
    ),
  )
  expect(all).toMatchObject({ isRefused: true, kick: undefined, timeout: undefined, reason: undefined })
  expect([all.ban?.action.action_type, all.alerts.length]).toEqual(["ban_user", 1])
})

test("a rule that is written is looked into: every fault has a name, defaults are filled in", () => {
  const refused = (run: () => unknown) => {
    try {
      run()
    } catch (error) {
      if (error instanceof Failure) return error.code
      throw error
    }
    return undefined
  }
  const config = (type: AutomodRuleType, given: unknown) =>
    refused(() => {
      const rule = { rule_type: type, config: checkedConfig(type, given) }
      if (!hasPattern(rule)) return
      noteMeasured([rule], [measuredPatterns(rule)])
      requireSoundPatterns(rule)
    })
  const wrong: [AutomodRuleType, unknown][] = [
    ["keyword", {}],
    ["keyword", { keywords: [] }],
    ["keyword", { keywords: ["x".repeat(101)] }],
    ["keyword", { keywords: Array.from({ length: 1001 }, (_, at) => `w${at}`) }],
    ["keyword", { keywords: ["\u200B"] }],
    ["keyword", { keywords: ["x"], severity_map: { x: "awful" } }],
    ["regex", { patterns: [] }],
    ["regex", { patterns: [{ pattern: "(" }] }],
    ["regex", { patterns: [{ pattern: "(?=x)\\1" }] }],
    ["regex", { patterns: [{ pattern: "x".repeat(501) }] }],
    ["regex", { patterns: [{ pattern: "(?:x{1,100}){10}" }] }],
    ["regex", { patterns: Array.from({ length: 51 }, () => ({ pattern: "x" })) }],
    ["mention_spam", { max_user_mentions: -1 }],
    ["message_spam", { max_messages: 0 }],
    ["message_spam", { similarity_threshold: 2 }],
    ["message_spam", { window_seconds: 3601 }],
    ["invite_links", { pattern: "[" }],
    ["mass_emoji", { max_percentage: 101 }],
    ["caps_percentage", { max_percentage: "70" }],
    ["repeated_chars", { max_repeats: 0 }],
    ["external_links", { mode: "greylist" }],
    ["external_links", { blacklist: ["not a domain"] }],
    ["ai_moderation", {}],
    ["ai_moderation", { backend: "https://evil.example" }],
    ["ai_moderation", { backend: "custom", score_threshold: 1.1 }],
  ]
  for (const [type, given] of wrong)
    expect(config(type, given), JSON.stringify([type, given])).toBe("invalid_automod_config")
  expect(checkedConfig("message_spam", { max_messages: null, unknown: 1 })).toEqual({
    max_messages: 5,
    window_seconds: 5,
    duplicate_threshold: 3,
    duplicate_window_seconds: 60,
    similarity_threshold: 0.9,
  })
  for (const actions of [
    [],
    Array.from({ length: 11 }, () => ({ action_type: "log_only" })),
    ["log_only"],
    [{ action_type: "explode" }],
    [{ action_type: "timeout_user", duration_seconds: 0 }],
    [{ action_type: "timeout_user", duration_seconds: 2_419_201 }],
    [{ action_type: "ban_user", metadata: { delete_message_days: 8 } }],
    [{ action_type: "log_only", metadata: { note: "x".repeat(1000) } }],
    [{ action_type: "log_only", reason: "x".repeat(513) }],
  ])
    // prettier-ignore
    expect(refused(() => checkedActions(actions)), JSON.stringify(actions)).toBe("invalid_automod_action")
  expect(checkedActions([{ action_type: "log_only" }])).toEqual([
    { action_type: "log_only", duration_seconds: null, reason: null, notify_user: true, metadata: {} },
  ])
})

test("the rules of a server are bounded together", () => {
  const many = (count: number, config: object, type: AutomodRuleType = "keyword") =>
    Array.from({ length: count }, () => rule(type, config))
  expect(isWithinBounds(many(100, { keywords: ["x"] }))).toBe(true)
  expect(isWithinBounds(many(101, { keywords: ["x"] }))).toBe(false)
  const long = { keywords: Array.from({ length: 1000 }, (_, at) => `${at}`.padEnd(100, "x")) }
  expect([isWithinBounds(many(2, long)), isWithinBounds(many(3, long))]).toEqual([true, false])
  const large = { patterns: [{ pattern: "x{120}" }] }
  const patterns = many(3, large, "regex")
  expect(unmeasured(patterns)).toEqual(patterns)
  noteMeasured(patterns, patterns.map(measuredPatterns))
  expect(unmeasured(patterns)).toEqual([])
  expect([isWithinBounds(patterns.slice(1)), isWithinBounds(patterns)]).toEqual([true, false])
})

test("what a match says besides is bounded, however long the code or the host", () => {
  const code = found(rule("invite_links", { pattern: "x/(\\w+)" }), `x/${"y".repeat(4000)}`)
  const category = found(rule("ai_moderation", { backend: "custom" }), "x", {
    scores: custom({ ["c".repeat(4000)]: 1 }),
  })
  const host = found(
    rule("external_links", { mode: "whitelist" }),
    `https://${"h".repeat(63)}.${"i.".repeat(90)}example`,
  )
  for (const broken of [code, category, host])
    for (const value of Object.values(broken!.metadata!))
      if (typeof value === "string") expect(codePoints(value)).toBeLessThanOrEqual(limits.automod.matchedCharacters)
  expect(code!.metadata!["code"]).toBe(`${"y".repeat(199)}…`)
})

test("a hundred rules of a type look at a message as often as one does", () => {
  const lenient: [AutomodRuleType, object][] = [
    ["keyword", { keywords: ["other"] }],
    ["mention_spam", { max_user_mentions: 4000, max_total_mentions: 4000 }],
    ["message_spam", { similarity_threshold: 1, duplicate_threshold: 3, max_messages: 30 }],
    ["invite_links", {}],
    ["mass_emoji", { max_emoji: 4000, max_percentage: 100 }],
    ["caps_percentage", { min_length: 0, max_percentage: 100 }],
    ["repeated_chars", { max_repeats: 10 }],
    ["external_links", { blacklist: ["evil.example"] }],
  ]
  const reads = (rules: readonly AutomodRule[]) => {
    let count = 0
    const counted = <T extends object>(of: T, key: keyof T, value: string): T =>
      Object.defineProperty(of, key, { get: () => (count++, value) })
    const recent = ["one", "two", "three"].map((text, at) =>
      counted(recentPost(String(at + 1), now - 1, ""), "text", text),
    )
    const judged = counted(said("", { recent }), "content", "<@1> @here HELLO 😀 invite/x https://good.example")
    expect(judge(rules, judged).broken, rules[0]!.rule_type).toEqual([])
    return count
  }
  for (const [type, config] of lenient) {
    const one = reads([rule(type, config)])
    expect(one, type).toBeGreaterThan(0)
    expect(reads(Array.from({ length: 100 }, () => rule(type, config))), type).toBe(one)
  }
})

test("an excerpt ends where a character ends", () => {
  expect(excerpt("short")).toBe("short")
  expect(excerpt("x".repeat(200))).toBe("x".repeat(200))
  for (const text of ["x".repeat(201), "🐦".repeat(4000), `x${"🐦".repeat(300)}`]) {
    expect(codePoints(excerpt(text))).toBe(200)
    expect(excerpt(text)).not.toMatch(loneSurrogate)
  }
})

/** One rule of each type, none of them lenient. */
const strict: readonly AutomodRule[] = inOrder(
  (
    [
      ["keyword", { keywords: ["bad", "a", "ab", "aba", "é", "🐦🐦", "null"], whole_word: false }],
      ["regex", { patterns: [{ pattern: "(a+)+$" }, { pattern: "(?:\\p{L}+\\s?)*!" }, { pattern: "(x?){9}x{9}" }] }],
      ["mention_spam", { max_user_mentions: 0, block_everyone: true }],
      ["message_spam", { duplicate_threshold: 2, similarity_threshold: 0.1 }],
      ["invite_links", { pattern: "j/(\\w)(?:.*z)?", allowed_codes: ["x"] }],
      ["external_links", { mode: "whitelist", whitelist: ["good.example"] }],
      ["mass_emoji", { max_emoji: 0 }],
      ["caps_percentage", { min_length: 0, max_percentage: 1 }],
      ["repeated_chars", { max_repeats: 1, min_occurrences: 1 }],
      ["ai_moderation", { backend: "custom" }],
    ] as const
  ).map(([type, config]) => rule(type, config, { check_all: true })),
)

test("no text makes the verdict throw, and what is noted of it can be stored", () => {
  expect(new Set(strict.map(one => one.rule_type))).toEqual(new Set(automodRuleTypes))
  const texts = fc.oneof(
    fc.string({ unit: "binary", maxLength: 200 }),
    fc.array(fc.constantFrom("<@1>", "<@&", "@here", "https://", "//", "www.", "@", ".", "a", "A", "🏳️‍🌈", "<:a1:1>", " ", "invite/", "\u0301", "%", "[", "ﷺ"), { maxLength: 200 })
      .map(parts => parts.join("")),
  ) // prettier-ignore
  const recent = awkwardStrings.map((text, at) => recentPost(String(at), now, text))
  const look = (content: string) => {
    const { broken } = judge(strict, said(content, { recent, scores: custom({ x: 1 }) }))
    for (const { matched } of broken)
      if (!loneSurrogate.test(content)) expect(excerpt(matched)).not.toMatch(loneSurrogate)
  }
  for (const content of awkwardStrings) look(content)
  fc.assert(fc.property(texts, look), { numRuns: 200 })
})

test("a text that is eight times as long takes about eight times as long, whatever stands in it", () => {
  const pieces = [
    "a", "A ", "<@1", "<", "@", "https:", "https://", "//a.", "www.", "a.b ", "invite/", "é", "\u0301\u0323", "🏳️‍🌈", "👩‍", "1 ", "!", "((", "(www.", "j/x", "x.x.","\u200B", "ﷺ", "x?",
  ] // prettier-ignore
  const recent = Array.from({ length: 30 }, (_, at) => recentPost(String(at), now, "aA".repeat(250)))
  // Time of the processor, not of the clock: others work on the machine, too.
  const took = (content: string) => {
    const runs = Array.from({ length: 2 }, () => {
      const before = process.cpuUsage()
      judge(strict, said(content, { recent, scores: custom({ x: 1 }) }))
      const { user, system } = process.cpuUsage(before)
      return (user + system) / 1000
    })
    return Math.min(...runs)
  }
  for (const piece of pieces) {
    const text = (length: number) => piece.repeat(Math.ceil(length / piece.length)).slice(0, length)
    const measured = () => ({ piece, once: took(text(1_500)), eightfold: took(text(12_000)) })
    // Three times over; what is quadratic takes 64 times as long.
    const isLong = ({ once, eightfold }: ReturnType<typeof measured>) => eightfold >= 24 * once + 50
    // A garbage collection of everything that tests before it left may be in one, not in three.
    const all = [measured()]
    while (isLong(all.at(-1)!) && all.length < 3) all.push(measured())
    expect(all.every(isLong), JSON.stringify(all)).toBe(false)
  }
})
