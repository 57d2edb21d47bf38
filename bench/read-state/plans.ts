/**
 * How PostgreSQL finds what read state asks for: the statements as the storage makes them,
 * explained on the smallest and the largest channel.
 */
import postgres from "postgres"
import { putReadState, readStateStorage, tallyMessages } from "../../src/storage/messages/read-state.ts"
import { explained } from "../communities/plans.ts"
import { messageAt, type Readings, type Size } from "./plant.ts"

export interface PlanResult {
  readonly statement: string
  readonly sizes: readonly {
    readonly size: number
    readonly rows: number
    /**
     * Blocks of 8 KiB looked at, in whichever plan takes more: one for these values, or one for
     * any.
     */
    readonly blocks: number
    readonly milliseconds: number
    readonly ways: string
  }[]
}

const nothingHere = "1000"

export async function benchPlans(
  databaseUrl: string,
  { community, byMessages, byReaders, joiner, joined }: Readings,
): Promise<PlanResult[]> {
  const { id: server_id, people } = community
  const reader = people[10]!.id
  const statements: Record<string, (sql: postgres.Sql, size: Size) => Promise<unknown>> = {
    "unread, nothing read": (sql, { channel }) => readStateStorage(sql).unreadIn(people.at(-1)!.id, channel, server_id),
    "what an acknowledgement of all marks": (sql, { channel, messages }) =>
      readStateStorage(sql).range(channel, reader, { after: "1", upto: messageAt(channel, messages) }),
    "what one of the latest ten marks": (sql, { channel, messages }) =>
      readStateStorage(sql).range(channel, reader, {
        after: messageAt(channel, messages - 10),
        upto: messageAt(channel, messages),
      }),
    "the newest message": (sql, { channel }) => readStateStorage(sql).newest(channel),
    "one's own position": (sql, { channel }) => readStateStorage(sql).states(channel, [reader]),
    "a position, written": async (sql, { channel, messages }) => {
      const at = messageAt(channel, messages)
      const { kind, row } = putReadState({
        channel_id: channel,
        user_id: reader,
        since_id: "1",
        message_id: at,
        visible_id: at,
        gaps: [],
      })
      await kind.statement(sql, [row])
    },
    "counting complete stretches, where none is": async (sql, { channel }) => {
      const { kind, row } = tallyMessages({ channel_id: channel })
      await kind.statement(sql, [row])
    },
    "a message deleted": (sql, { channel, messages }) =>
      sql`DELETE FROM messages WHERE channel_id = ${channel} AND id = ${messageAt(channel, messages / 2)}`,
  }
  let seen: { text: string; values: readonly unknown[] }[] = []
  const sql = postgres(databaseUrl, {
    max: 1,
    onnotice: () => undefined,
    debug: (_connection, text, values) => seen.push({ text, values: values as unknown[] }),
  })
  const explain = async (size: number, ask: () => Promise<unknown>) => {
    seen = []
    await ask()
    const asked = seen
    seen = []
    const plans = []
    for (const mode of ["force_custom_plan", "force_generic_plan"]) plans.push(await explained(sql, mode, asked))
    return { size, ...plans.toSorted((a, b) => b.blocks - a.blocks)[0]! }
  }
  try {
    await sql`SELECT 1`
    const results: PlanResult[] = []
    for (const [statement, ask] of Object.entries(statements)) {
      const sizes = []
      for (const size of [byMessages[0]!, byMessages.at(-1)!])
        sizes.push(await explain(size.messages, () => ask(sql, size)))
      results.push({ statement, sizes })
    }
    const readers = []
    for (const size of [byReaders[0]!, byReaders.at(-1)!])
      readers.push(await explain(size.readers, () => readStateStorage(sql).readers(size.channel)))
    results.push({ statement: "readers of a channel, once it wakes", sizes: readers })
    const storage = readStateStorage(sql)
    results.push({
      statement: `channels of ${joined.servers} servers with something new`,
      sizes: [
        await explain(0, () => storage.channelsAhead(nothingHere)),
        await explain(joined.channels, () => storage.channelsAhead(joiner.id)),
      ],
    })
    const ahead = await storage.channelsAhead(joiner.id)
    results.push({
      statement: "what is unread in those",
      sizes: [
        await explain(1, () => storage.unread(joiner.id, ahead.slice(0, 1))),
        await explain(ahead.length, () => storage.unread(joiner.id, ahead)),
      ],
    })
    results.push({
      statement: "what decides which channels one may read",
      sizes: [
        await explain(1, () => storage.outlines(reader)),
        await explain(joined.servers, () => storage.outlines(joiner.id)),
      ],
    })
    return results
  } finally {
    await sql.end({ timeout: 5 })
  }
}
