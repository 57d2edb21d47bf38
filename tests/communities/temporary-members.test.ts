/** Members for as long as they are online: when they go, and what makes them stay. */
import { shardOf } from "../../src/domain/core/snowflake.ts"
import type { Cluster, Worker } from "../kit/cluster.ts"
import type { Person } from "../kit/person.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, testWith } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const topology = { gateway: { resumeWindowMs: 500 } }
const test = testWith({ topology })

const isMember = async ({ sql }: Cluster, server_id: string, { id }: Person): Promise<boolean> =>
  (await sql`SELECT FROM members WHERE server_id = ${server_id} AND user_id = ${id}`).length === 1

const hasGone = (cluster: Cluster, server_id: string, person: Person) =>
  until(`${person.username} has gone`, async () => !(await isMember(cluster, server_id, person)), { timeoutMs: 20_000 })

/** Ada's server, a way in for as long as one is there, and somebody who has come that way. */
async function visited(cluster: Cluster, place: Worker) {
  const { ada, server, channel } = await cluster.seed(sharedServer)
  const owner = ada.on(place)
  const { code } = await owner.createInvite({ channel_id: channel.id, temporary: true })
  const visitor = async () => {
    const person = await cluster.person("guest")
    await person.on(place).joinByInvite({ invite_code: code })
    return person
  }
  return { ada, owner, server_id: server.id, code, visitor, guest: await visitor() }
}

/** Goes and is away for so long that members who would be removed by now have been. */
async function another(cluster: Cluster, { server_id, visitor }: Awaited<ReturnType<typeof visited>>, place: Worker) {
  const person = await visitor()
  const inbox = await person.listen(place)
  inbox.close()
  await hasGone(cluster, server_id, person)
}

test("a temporary membership ends with the last session, and everybody is told", async ({ shared }) => {
  const scene = await visited(shared, shared.east)
  const { ada, guest, owner, server_id, code } = scene
  const [inbox, first, second] = await Promise.all([
    ada.listen(shared.east),
    guest.listen(shared.west),
    guest.listen(shared.east),
  ])
  first.close()
  await another(shared, scene, shared.west)
  expect(await isMember(shared, server_id, guest), "their second session lives").toBe(true)
  second.close()
  await hasGone(shared, server_id, guest)
  while ((await inbox.next("GUILD_MEMBER_REMOVE", { timeoutMs: 10_000 })).user.id !== guest.id);
  const [entry] = await owner.listAuditLog({ server_id, action: "MEMBER_KICK", user_id: guest.id })
  expect(entry).toMatchObject({ user_id: guest.id, target_id: guest.id, reason: "temporary membership ended" })
  // They may come again.
  await guest.on(shared.west).joinByInvite({ invite_code: code })
  expect(await isMember(shared, server_id, guest)).toBe(true)
})

test("a role makes them stay, also when it is taken again; so does another way in", async ({ shared }) => {
  const scene = await visited(shared, shared.east)
  const { guest, owner, server_id, visitor } = scene
  const [crew, once, plain] = [guest, await visitor(), await shared.person("plain")]
  const { id: role_id } = await owner.createRole({ server_id, name: "Crew" })
  const channel_id = (await owner.listChannels({ server_id }))[0]!.id
  const { code } = await owner.createInvite({ channel_id })
  await plain.on(shared.west).joinByInvite({ invite_code: code })
  for (const person of [crew, once]) await owner.giveRole({ server_id, member_id: person.id, role_id })
  await owner.takeRole({ server_id, member_id: once.id, role_id })
  for (const person of [crew, once, plain]) (await person.listen(shared.west)).close()
  await another(shared, scene, shared.west)
  for (const person of [crew, once, plain]) expect(await isMember(shared, server_id, person)).toBe(true)
  expect(await shared.sql`SELECT FROM members WHERE server_id = ${server_id} AND temporary`).toHaveLength(0)
})

test("a member who resumes, or signs in anew before the window is over, stays, and may be invisible meanwhile", async ({
  shared,
}) => {
  const scene = await visited(shared, shared.east)
  const { guest, server_id, visitor } = scene
  const hidden = await visitor()
  await hidden.on(shared.east).updatePresence({ status: "invisible" })
  const [inbox, hiddenInbox] = await Promise.all([guest.listen(shared.west), hidden.listen(shared.east)])
  inbox.drop()
  await inbox.reconnect(shared.east.url)
  const again = await visitor()
  ;(await again.listen(shared.east)).close()
  const back = await again.listen(shared.west)
  await another(shared, scene, shared.east)
  for (const person of [guest, hidden, again]) expect(await isMember(shared, server_id, person)).toBe(true)
  for (const one of [inbox, hiddenInbox, back]) one.close()
  for (const person of [guest, hidden, again]) await hasGone(shared, server_id, person)
})

test("a temporary membership ends, too, when the worker that held the session, or the one that owned the home, has died", async ({
  cluster,
}) => {
  const [east, west] = await cluster.boot(2, { topology })
  const scene = await visited(cluster, west!)
  const { server_id, visitor } = scene
  const ownerOf = async ({ id }: Person) =>
    (await cluster.sql`SELECT owner FROM shards WHERE shard = ${shardOf(id)}`)[0]!["owner"] as string
  const people = await Promise.all(Array.from({ length: 3 }, visitor))
  const owners = new Set(await Promise.all(people.map(ownerOf)))
  // Of homes on both workers.
  while (owners.size < 2) {
    people.push(await visitor())
    owners.add(await ownerOf(people.at(-1)!))
  }
  const staying = await visitor()
  await staying.listen(west!)
  for (const person of people) await person.listen(east!)
  await east!.stop()
  for (const person of people) await hasGone(cluster, server_id, person)
  expect(await isMember(cluster, server_id, staying)).toBe(true)
}, 60_000)

test("when the owner is killed after somebody has gone, the next one removes them", async ({ cluster }) => {
  const [east, west] = await cluster.boot(2, { topology: { gateway: { resumeWindowMs: 2_000 } } })
  const { server_id, visitor } = await visited(cluster, west!)
  const ownedBy = async ({ id }: Person, worker: Worker) =>
    (await cluster.sql`SELECT FROM shards WHERE shard = ${shardOf(id)} AND owner = ${worker.id}`).length === 1
  let person = await visitor()
  while (!(await ownedBy(person, east!))) person = await visitor()
  ;(await person.listen(west!)).close()
  const asker = (await cluster.person("asker", west)).on(west!)
  await until("they have gone", async () => (await asker.getPresence({ user_id: person.id })).status === "offline")
  expect(await isMember(cluster, server_id, person)).toBe(true)
  await east!.drain()
  await hasGone(cluster, server_id, person)
}, 60_000)
