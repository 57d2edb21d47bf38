/** A message whose owner is killed between commit and publication, and that is changed before anybody is told of it. */
import { Message } from "../../src/contract/messages/messages.ts"
import { openRedis } from "../../src/cluster/redis.ts"
import { shardOf } from "../../src/domain/core/snowflake.ts"
import { messages } from "../../src/http/messages/messages.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

test(
  "BAL2, P1, P2: after kill -9 between commit and publication everybody is told once, in the words of then; who asked gets the message of now",
  { timeout: 120_000 },
  async ({ cluster }) => {
    const first = await cluster.processes(1)
    const second = await cluster.processes(1, { REDIS_URL: first.redisUrl })
    const { ada, lin, channel } = await sharedServer(cluster, first)
    const { sql } = cluster
    const wait = { timeoutMs: 30_000 }
    const starts = () => sql<{ id: string; owner: string | null }[]>`
      SELECT i.id, (SELECT owner FROM shards WHERE shard = ${shardOf(channel.id)}) AS owner
      FROM incarnations i WHERE i.role = 'web' AND i.died_at IS NULL ORDER BY i.started_at`
    await until("both hosts are there", async () => (await starts()).length === 2, wait)
    const isFirst = async () => {
      const [one] = await starts()
      return one!.id === one!.owner
    }
    const posts = { channel_id: channel.id }
    const [owner, other] = (await isFirst()) ? [first, second] : [second, first]
    const inbox = await lin.listen(other)
    await ada.on(other).createMessage({ ...posts, content: "before" })
    await inbox.next("MESSAGE_CREATE", { where: ({ content }) => content === "before", ...wait })
    const web = (await owner.workers()).find(({ slot }) => slot.startsWith("web"))!

    // Edited by the very commit that makes it: whenever the next owner looks, that is what it finds.
    await sql.unsafe(`
      CREATE FUNCTION edit_at_once() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN NEW.content := 'as it was edited'; NEW.edited_at := 1; RETURN NEW; END $$;
      CREATE TRIGGER edit_at_once BEFORE INSERT ON messages FOR EACH ROW
        WHEN (NEW.content = 'as it was said') EXECUTE FUNCTION edit_at_once()`)
    const redis = openRedis(first.redisUrl, "test", () => {})
    await redis.connect()
    const locks = await sql.reserve()
    let answer: ReturnType<ReturnType<typeof ada.on>["createMessage"]>
    try {
      // Held in its commit; then nothing can be appended or answered any more, and the commit goes on.
      await locks`BEGIN`
      await locks`LOCK TABLE messages IN SHARE MODE`
      answer = ada.on(other).createMessage({ ...posts, content: "as it was said" })
      answer.catch(() => {})
      const isHeld = async () => {
        const held = await sql`
          SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%outbox%'`
        return held.length > 0
      }
      await until("its commit waits", isHeld, wait)
      await redis.client("PAUSE", 60_000, "WRITE")
      await locks`ROLLBACK`
      const isThere = async () => (await sql`SELECT FROM messages WHERE content = 'as it was edited'`).length > 0
      await until("it is committed", isThere, wait)
      await sql`UPDATE users SET username = 'another_name' WHERE id = ${ada.id}`
      owner.kill(web.pid, "SIGKILL")
    } finally {
      locks.release()
      await redis.client("UNPAUSE")
      redis.disconnect()
    }

    // It has no nonce: the next owner knows the request by what was kept with it.
    const sent = await answer
    const stored = await sql<{ id: string }[]>`SELECT id FROM messages WHERE content = 'as it was edited'`
    expect(stored).toEqual([{ id: sent.id }])
    expect(sent).toMatchObject({ content: "as it was edited", author_id: ada.id, nonce: null })
    const told = await inbox.next("MESSAGE_CREATE", { where: ({ id }) => id === sent.id, ...wait })
    expect(told).toMatchObject({ content: "as it was said", edited_at: null, author_username: ada.username })
    await ada.on(other).createMessage({ ...posts, content: "after" })
    await inbox.next("MESSAGE_CREATE", { where: ({ content }) => content === "after", ...wait })
    expect(inbox.rest().filter(({ name }) => name === "MESSAGE_CREATE")).toEqual([])
    const count = await sql`SELECT FROM messages WHERE channel_id = ${channel.id}`
    expect(count).toHaveLength(3)
  },
)

test("MSG3: a message that was deleted before its author was answered is answered empty, as after a repeated nonce", async () => {
  const storage = { messages: { find: () => Promise.resolve(new Map()) } }
  const views = { storage, linkTo: String, clock: () => 0 }
  const ask = () => Promise.resolve({ sentBefore: "4096000", server_id: "1" })
  const { createMessage } = messages({
    ask,
    storage,
    views,
    service: { moderation: () => ({ isOff: false, backends: [] }) },
  } as never)
  const caller = { user_id: "3", username: "ada", bot: false, badges: [] }
  const body = { content: "gone", nonce: "n1" }
  const answer = await createMessage({ params: { channel_id: "2" }, body, caller, idempotencyKey: undefined } as never)
  expect(Message.parse(answer)).toMatchObject({
    id: "4096000",
    channel_id: "2",
    server_id: "1",
    author_id: "3",
    author_username: "ada",
    content: null,
    nonce: "n1",
    embeds: [],
    read: true,
  })
})
