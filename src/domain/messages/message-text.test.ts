import fc from "fast-check"
import { expect, test } from "vitest"
import { endOf, headOf, isPlain, newMessageTexts, type ReadBy } from "./message-text.ts"
import { messageObject, type MessageState } from "./messages.ts"

const id = fc.bigInt({ min: 1n, max: 2n ** 63n - 1n }).map(String)
const words = fc.string({ unit: "binary", maxLength: 30 })
const maybe = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: null })
const plain: fc.Arbitrary<MessageState> = fc.record(
  {
    id,
    channel_id: id,
    server_id: maybe(id),
    author_id: id,
    author_username: words,
    author_bot: fc.boolean(),
    author_badges: fc.array(words, { maxLength: 12 }),
    content: maybe(words),
    edited_at: maybe(fc.nat()),
    reply_to_id: maybe(id),
    nonce: maybe(words),
    pinned_at: maybe(fc.nat()),
    deleted: fc.constant(false),
    webhook_id: maybe(id),
    webhook_name: maybe(words),
    webhook_avatar_url: maybe(words),
    embeds: maybe(fc.array(fc.jsonValue({ maxDepth: 2 }), { maxLength: 3 })),
    attachments: fc.constantFrom(null, []),
    reactions: fc.constantFrom(null, []),
    poll: fc.constant(null),
  },
  {
    requiredKeys: [
      "id",
      "channel_id",
      "server_id",
      "author_id",
      "author_username",
      "author_bot",
      "author_badges",
      "content",
      "edited_at",
      "reply_to_id",
      "nonce",
    ],
  },
)
const readBy: fc.Arbitrary<ReadBy> = fc.record({
  status: fc.constantFrom("sent" as const, "delivered" as const, "read" as const),
  delivery_count: fc.nat(),
  read_count: fc.nat(),
  read: fc.boolean(),
  read_by: fc.array(words, { maxLength: 2 }),
})

test("a plain message in words is its object in JSON", () => {
  fc.assert(
    fc.property(plain, readBy, (message, seen) => {
      expect(isPlain(message)).toBe(true)
      const object = messageObject(message, { reader: null, linkTo: file => file, now: 0 })
      expect(JSON.parse(headOf(message) + endOf(seen))).toEqual(JSON.parse(JSON.stringify({ ...object, ...seen })))
    }),
  )
})

test("a new message in words is its object in JSON, for everybody and for its author", () => {
  fc.assert(
    fc.property(plain, message => {
      const seenBy = (reader: string | null) =>
        JSON.parse(JSON.stringify(messageObject(message, { reader, linkTo: file => file, now: 0 }))) as unknown
      const { forAll, forAuthor } = newMessageTexts(message)!
      expect(JSON.parse(forAll)).toEqual(seenBy(null))
      expect(JSON.parse(forAuthor)).toEqual(seenBy(message.author_id))
    }),
  )
})

test("a message with more than text and embeds is none in words", () => {
  const [message] = fc.sample(plain, 1)
  const reactions = [{ emoji: "x", count: 1 }] as never
  expect(newMessageTexts({ ...message!, reactions })).toBeUndefined()
})
