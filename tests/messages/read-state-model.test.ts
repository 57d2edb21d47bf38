/**
 * Unread counts equal those found by reading all messages, whatever happened before, with blocks of
 * a few messages.
 */
import type { Snowflake } from "../../src/contract/core/fields.ts"
import {
  countReaders,
  loadedReaders,
  readersOf,
  readOn,
  someReaders,
  type ReadState,
} from "../../src/domain/messages/read-state.ts"
import { compareIds, epochMs, idOf } from "../../src/domain/core/snowflake.ts"
import { deleteMessage } from "../../src/storage/messages/messages.ts"
import { tallyAfter } from "../../src/actors/messages/read-state.ts"
import { putReadState, readStateStorage, tallyMessages } from "../../src/storage/messages/read-state.ts"
import type { Write } from "../../src/storage/core/write.ts"
import { randomFrom } from "../chaos/random.ts"
import type { Cluster } from "../kit/cluster.ts"
import { expect, test } from "../kit/test.ts"

interface Sent {
  readonly id: Snowflake
  readonly author: Snowflake
  readonly nonce: string | null
}

const stretch = 8
const [home, first] = ["700", 900_000] as const
const people = Array.from({ length: 5 }, (_, i) => String(10 ** 17 + i * 100))
const channels = Array.from({ length: 3 }, (_, i) => idOf(7, { ms: epochMs + 3_000_000_000 + i, sequence: 0 }))

const commit = ({ sql }: Cluster, { kind, row }: Write) => kind.statement(sql, [row])

for (const seed of [1, 2])
  test(`seed ${seed}: sends, deletions of every kind and acknowledgements, in any order`, async ({ cluster }) => {
    const random = randomFrom(seed, "read state")
    const { sql } = cluster
    const storage = readStateStorage(sql)
    const model = new Map(channels.map(channel => [channel, [] as Sent[]]))
    const positions = new Map<string, Snowflake>()
    // Each joined at another message.
    const joined = people.map((user, i) => ({ user, since: idOf(7, { ms: epochMs + first + i * 7, sequence: 0 }) }))
    await sql`
      INSERT INTO users (id, username, email, created_at) SELECT id, 'p' || id, 'p' || id, 1 FROM unnest(${people}::bigint[]) AS id`
    await sql`
      INSERT INTO members (server_id, user_id, joined_at, since_id)
      SELECT ${home}::bigint, t.id, 1, t.since
      FROM unnest(${people}::bigint[], ${joined.map(({ since }) => since)}::bigint[]) AS t (id, since)`
    /** What others may see that somebody has read, and what was written. */
    const shown = new Map<string, Set<Snowflake>>()
    const states = new Map<string, ReadState>()
    const hiding = new Set<string>()
    let made = 0
    const others = (channel: string, user: string, after: string, upto = "9223372036854775807") =>
      model
        .get(channel)!
        .filter(({ id, author }) => author !== user && compareIds(id, after) > 0 && compareIds(id, upto) <= 0).length
    const joinedOf = (user: string) => joined.find(one => one.user === user)!
    const startOf = (channel: string, user: string) => {
      const { since } = joinedOf(user)
      const position = positions.get(`${channel} ${user}`) ?? "0"
      return compareIds(position, since) < 0 ? since : position
    }
    let [tallied, deletedCounted, marked, hidden] = [0, 0, 0, 0]
    for (let step = 0; step < 300; step++) {
      const channel = random.pick(channels)
      const messages = model.get(channel)!
      const act = random.next()
      if (act < 0.55) {
        const sent: Sent = {
          id: idOf(7, { ms: epochMs + first + ++made, sequence: made % 3 }),
          author: random.pick(people),
          nonce: random.next() < 0.3 ? `n${made}` : null,
        }
        await sql`
          INSERT INTO messages (channel_id, id, server_id, author_id, content, nonce)
          VALUES (${channel}, ${sent.id}, ${home}, ${sent.author}, 'x', ${sent.nonce})`
        messages.push(sent)
        if (random.next() < 0.25) await commit(cluster, tallyMessages({ channel_id: channel, stretch }))
      } else if (act < 0.8) {
        const gone = random.pick(messages)
        if (!gone) continue
        const where = sql`channel_id = ${channel} AND id = ${gone.id}`
        const way = random.next()
        if (way < 0.5)
          await commit(cluster, deleteMessage({ channel_id: channel, id: gone.id, isLeft: gone.nonce !== null }))
        else if (way < 0.75) await sql`DELETE FROM messages WHERE ${where}`
        // Twice at once counts once.
        else await Promise.all([1, 2].map(() => sql`UPDATE messages SET deleted = true, content = NULL WHERE ${where}`))
        messages.splice(messages.indexOf(gone), 1)
        const [counted] =
          await sql`SELECT FROM message_tallies WHERE channel_id = ${channel} AND upto_id >= ${gone.id} LIMIT 1`
        if (counted) deletedCounted++
      } else {
        const [user, target] = [random.pick(people), random.pick(messages)]
        if (!target) continue
        const after = startOf(channel, user)
        const key = `${channel} ${user}`
        const range = await storage.range(channel, user, { after, upto: target.id })
        expect(range).toMatchObject({ isThere: true, hasMentions: false })
        if (compareIds(target.id, after) > 0) {
          expect(range.marked).toBe(others(channel, user, after, target.id))
          marked += range.marked
          const isShown = !hiding.has(user)
          const seen = shown.get(key) ?? new Set()
          for (const { id } of messages)
            if (isShown && compareIds(id, after) > 0 && compareIds(id, target.id) <= 0) seen.add(id)
          shown.set(key, seen)
          positions.set(key, target.id)
          const state = readOn(states.get(key), joinedOf(user).since, { message_id: target.id, isShown })
          states.set(key, state)
          hidden += isShown && state.gaps.length > 0 ? 1 : 0
          await commit(cluster, putReadState({ channel_id: channel, user_id: user, ...state }))
          // One that comes late takes nothing back.
        } else if (compareIds(target.id, positions.get(key) ?? "0") <= 0)
          await commit(
            cluster,
            putReadState({
              channel_id: channel,
              user_id: user,
              since_id: "0",
              message_id: target.id,
              visible_id: target.id,
              gaps: [],
            }),
          )
        // They change their mind, or leave and come back.
        if (random.next() < 0.3 && !hiding.delete(user)) hiding.add(user)
        if (random.next() < 0.2) {
          joinedOf(user).since = idOf(7, { ms: epochMs + first + ++made, sequence: 0 })
          await sql`UPDATE members SET since_id = ${joinedOf(user).since} WHERE user_id = ${user}`
        }
      }
      if (step % 5 > 0) continue
      const user = random.pick(people)
      const found = await storage.unread(
        user,
        channels.map(id => ({ id, server_id: home })),
      )
      expect(Object.fromEntries(found.map(one => [one.channel_id, one.unread_count]))).toEqual(
        Object.fromEntries(channels.map(id => [id, others(id, user, startOf(id, user))])),
      )
      const readers = readersOf(loadedReaders(await storage.readers(channel)).byUser)
      for (const { id, author } of messages) {
        const seenBy = people.filter(person => person !== author && shown.get(`${channel} ${person}`)?.has(id))
        expect(countReaders(readers, id, author)).toBe(seenBy.length)
        expect(someReaders(readers, id, author, 100).toSorted()).toEqual(seenBy)
      }
      const here = found.find(one => one.channel_id === channel)
      expect(await storage.unreadIn(user, channel, home)).toEqual({ ...here, last_read_id: startOf(channel, user) })
    }
    const rows = await sql<{ count: number }[]>`SELECT count(*)::int AS count FROM message_tallies WHERE author_id = 0`
    tallied = rows[0]!.count
    expect(Math.min(tallied, deletedCounted, marked, hidden)).toBeGreaterThan(3)
    for (const channel of channels) await sql`DELETE FROM messages WHERE channel_id = ${channel}`
    const left = await sql`SELECT FROM message_tallies WHERE count <> 0`
    expect(left).toHaveLength(0)
  })

test("messages of a channel are counted after about each 1,024th, however regularly they come", () => {
  for (const pause of [1, 2, 128, 1_000, 1_024, 60_000]) {
    const count = 100_000
    const ids = Array.from({ length: count }, (_, i) =>
      idOf(7, { ms: epochMs + 90_000_000_000 + i * pause, sequence: 0 }),
    )
    const counted = ids.filter(id => tallyAfter("1", id).length > 0).length
    expect([pause, Math.round(count / counted / 512)]).toEqual([pause, 2])
  }
})
