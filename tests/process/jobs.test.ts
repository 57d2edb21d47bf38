import { hashSecret, newSecret } from "../../src/cluster/tokens.ts"
import { refusal } from "../kit/conformance.ts"
import { clientAt } from "../kit/person.ts"
import { plantedId, sharedServer } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

test("P15: an invite whose time is over is ended by its job; others go on", async ({ cluster }) => {
  const [place] = await cluster.boot(2)
  await cluster.bootJobWorker()
  const { channel, ada, lin } = await cluster.seed(sharedServer)
  const { createInvite, getInvite } = ada.on(place!)
  const short = await createInvite({ channel_id: channel.id, max_age: 1 })
  const [long, ever] = [
    await createInvite({ channel_id: channel.id, max_age: 60 }),
    await createInvite({ channel_id: channel.id, max_age: 0 }),
  ]
  const ended = async () => {
    const rows = await cluster.sql<{ code: string }[]>`
      SELECT code FROM invites WHERE inviter_id = ${ada.id} AND ended_at >= expires_at`
    return rows.map(({ code }) => code)
  }
  await until("the job has ended it", async () => (await ended()).includes(short.code))
  expect(await ended()).toEqual([short.code])
  for (const { code } of [long, ever]) {
    expect((await getInvite({ invite_code: code })).code).toBe(code)
  }
  expect(await refusal(lin.on(place!).joinByInvite({ invite_code: short.code }))).toBe("invite_not_found")
})

test("a session whose time is over is refused at once, and ended by the job worker", async ({ cluster }) => {
  const [place] = await cluster.boot(1)
  const ada = await cluster.person("ada")
  const now = Math.floor(Date.now() / 1000)
  const plant = async (expires: number) => {
    const [user, session, secret] = [plantedId(), plantedId(), newSecret()]
    await cluster.sql`INSERT INTO users (id, username, created_at) VALUES (${user}, ${cluster.newName("old")}, ${now})`
    await cluster.sql`
      INSERT INTO sessions (id, user_id, token_hash, ip_address, user_agent, created_at, expires_at, last_activity)
      VALUES (${session}, ${user}, ${hashSecret(secret)}, '', '', ${now}, ${expires}, ${now})`
    return { session, rest: clientAt(place!, `${session}.${secret}`) }
  }
  const [over, going] = [await plant(now - 120), await plant(now + 3600)]
  expect(await refusal(over.rest.getMe())).toBe("expired_token")
  expect((await going.rest.getMe()).email).toBeNull()
  await cluster.bootJobWorker()
  const left = async () => (await cluster.sql`SELECT id FROM sessions`).map(row => row["id"] as string)
  await until("the session is gone", async () => !(await left()).includes(over.session))
  expect(await refusal(over.rest.getMe())).toBe("revoked_token")
  expect(await left()).toContain(going.session)
  expect((await ada.on(place!).getMe()).id).toBe(ada.id)
})

test("a session that is used on its last day lives on for another week", async ({ cluster }) => {
  const [place] = await cluster.boot(1)
  const ada = await cluster.person("ada")
  const [session] = ada.token.split(".") as [string]
  const now = Math.floor(Date.now() / 1000)
  // As it stands in the tables before any worker has looked at it again.
  await place!.drain()
  await cluster.sql`UPDATE sessions SET expires_at = ${now + 3600}, last_activity = ${now - 600} WHERE id = ${session}`
  const [next] = await cluster.boot(1)
  expect((await ada.on(next!).getMe()).id).toBe(ada.id)
  await until("it is extended", async () => {
    const [row] = await cluster.sql<{ expires_at: number }[]>`SELECT expires_at FROM sessions WHERE id = ${session}`
    return row!.expires_at > now + 6 * 86_400
  })
  expect((await ada.on(next!).getMe()).id).toBe(ada.id)
})
