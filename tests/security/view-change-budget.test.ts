/** P19: a server's budget of changes that decide who views its channels, and whose it is. */
import { refusal } from "../kit/conformance.ts"
import type { Person } from "../kit/person.ts"
import { plantServer } from "../kit/seeds.ts"
import { expect, testWith, type SharedCluster } from "../kit/test.ts"

const wide = { requests: 5_000, seconds: 1 }
/** The limits of requests are not what this is about. */
const test = testWith({
  limited: true,
  config: {
    STARLING_RATE_LIMITS: JSON.stringify({ global: wide, user: wide, ip: wide, "POST /auth/register": wide }),
  },
})

/** A server with roles of moderators, and a role below them that nobody has. */
async function moderated(shared: SharedCluster, count: number) {
  const people = await Promise.all(
    Array.from({ length: count + 1 }, (_, i) => shared.person(i === 0 ? "owner" : "moderator")),
  )
  const [ada, ...moderators] = people
  const { server_id, channel_id, channel_ids } = await plantServer(shared, {
    owner: ada!,
    members: moderators,
    channels: 120,
  })
  const owner = ada!.on(shared.east)
  const permissions = { "roles.manage": true, "channels.manage": true, "members.manage_roles": true }
  const low = await owner.createRole({ server_id, name: "Low" })
  const roles = []
  for (const { id } of moderators) {
    const role = await owner.createRole({ server_id, name: "Moderators", permissions })
    await owner.editRole({ server_id, role_id: role.id, position: 2 })
    await owner.giveRole({ server_id, member_id: id, role_id: role.id })
    roles.push(role.id)
  }
  return { server_id, channel_id, channel_ids, owner, moderators, low: low.id, roles }
}

/** Changes who views a channel as fast as may be. @returns how many changes were refused */
async function burn(shared: SharedCluster, moderator: Person, channels: readonly string[], target_id: string) {
  const rest = moderator.on(shared.west)
  const outcomes = await Promise.allSettled(
    channels.map(channel_id =>
      rest.setOverride({ channel_id, target_id, type: "role", allow: ["channels.view"], deny: [] }),
    ),
  )
  const refused = outcomes.filter(outcome => outcome.status === "rejected")
  for (const { reason } of refused)
    expect(reason).toMatchObject({ status: 429, body: { scope: "resource", global: false } })
  return refused.length
}

test("P19: moderators who use up all that they may of a server's budget keep nobody else from acting: the owner takes their roles at once", async ({
  shared,
}) => {
  const { server_id, channel_ids, owner, moderators, low, roles } = await moderated(shared, 3)
  const [first, second, third] = moderators
  expect(await burn(shared, first!, channel_ids.slice(0, 60), low)).toBeGreaterThan(0)
  // One alone cannot keep others from it.
  const own = {
    channel_id: channel_ids[70]!,
    target_id: low,
    type: "role" as const,
    allow: ["channels.view"],
    deny: [],
  }
  await third!.on(shared.east).setOverride(own)
  expect(await burn(shared, second!, channel_ids.slice(60, 120), low)).toBeGreaterThan(0)

  const [ofFirst, ofSecond, ofThird] = roles as [string, string, string]
  expect(await owner.takeRole({ server_id, member_id: first!.id, role_id: ofFirst })).toEqual({ success: true })
  expect(await owner.deleteRole({ server_id, role_id: ofSecond })).toEqual({ success: true })
  await owner.editRole({ server_id, role_id: ofThird, permissions: { "channels.view": true } })
  await owner.deleteOverride({ channel_id: own.channel_id, target_id: low })
  for (const moderator of moderators)
    expect(await refusal(moderator.on(shared.west).setOverride(own))).toBe("permission_denied")
})

test("a change beyond the budget is told when to come back, and changes nothing", async ({ shared }) => {
  const { channel_ids, owner, moderators, low } = await moderated(shared, 1)
  await burn(shared, moderators[0]!, channel_ids.slice(0, 60), low)
  const set = await Promise.all(
    channel_ids.slice(0, 60).map(async channel_id => (await owner.listOverrides({ channel_id })).length),
  )
  expect(set.reduce((sum, count) => sum + count, 0)).toBeLessThan(60)
})

test("what changes nobody's views counts for nothing: a hundred channels in a row, and a role for each newcomer", async ({
  shared,
}) => {
  const { server_id, owner, moderators, low } = await moderated(shared, 1)
  const [moderator] = moderators
  const rest = moderator!.on(shared.west)
  const made = await Promise.all(
    Array.from({ length: 100 }, (_, i) => rest.createChannel({ server_id, name: `new ${i}` })),
  )
  await Promise.all(made.map(({ id }) => rest.editChannel({ channel_id: id, name: "renamed" })))
  await Promise.all(made.slice(0, 50).map(({ id }) => rest.deleteChannel({ channel_id: id })))
  for (let i = 0; i < 60; i++)
    if (i % 2 === 0) await rest.giveRole({ server_id, member_id: moderator!.id, role_id: low })
    else await rest.takeRole({ server_id, member_id: moderator!.id, role_id: low })
  expect(await owner.listChannels({ server_id })).toHaveLength(170)
})

test("P19: moves of many channels count by how many events they send to everybody", async ({ shared }) => {
  const { server_id, channel_ids, moderators } = await moderated(shared, 1)
  const [moderator] = moderators
  const rest = moderator!.on(shared.west)
  const turned = (by: number) => channel_ids.map((id, i) => ({ id, position: i + by }))
  const outcomes = await Promise.allSettled(
    Array.from({ length: 40 }, (_, i) => rest.reorderChannels({ server_id, channels: turned(i + 1) })),
  )
  const refused = outcomes.filter(outcome => outcome.status === "rejected")
  // 120 events are two changes.
  expect(refused.length).toBeGreaterThan(0)
  for (const { reason } of refused) expect(reason).toMatchObject({ status: 429, body: { scope: "resource" } })
  // A few are none.
  for (let i = 0; i < 20; i++)
    await rest.reorderChannels({ server_id, channels: [{ id: channel_ids[0]!, position: 1_000 + i }] })
})
