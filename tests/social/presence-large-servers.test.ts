/**
 * Presence in servers that are too large to tell everybody of everybody: sessions hear of those
 * whom they ask for.
 */
import { opcodes } from "../../src/contract/core/gateway-codes.ts"
import { allIntents } from "../../src/contract/core/intents.ts"
import type { Listener, Person } from "../kit/person.ts"
import { plantServer } from "../kit/seeds.ts"
import { expect, testWith } from "../kit/test.ts"

const test = testWith({ topology: { presence: { members: 3, watchEveryMs: 100 } } })

async function ask(inbox: Listener, server_id: string, of: readonly Person[], presences?: boolean): Promise<void> {
  const d = { guild_id: server_id, user_ids: of.map(({ id }) => id), ...(presences !== undefined && { presences }) }
  inbox.send({ op: opcodes.REQUEST_GUILD_MEMBERS.op, d })
  await inbox.next("GUILD_MEMBERS_CHUNK")
}
const updatesIn = (inbox: Listener) =>
  inbox.rest().flatMap(({ name, data }) => (name === "PRESENCE_UPDATE" ? [data.user_id] : []))

test("in a large server a session is told of the members whom it has asked for with presences, and of nobody else", async ({
  shared,
}) => {
  const [ada, lin, mo, eve] = await Promise.all(["ada", "lin", "mo", "eve"].map(name => shared.person(name)))
  const { server_id } = await plantServer(shared, { owner: ada!, members: [lin!, mo!, eve!] })
  const [inbox, quiet] = await Promise.all([
    ada!.listen(shared.east, { intents: allIntents }),
    ada!.listen(shared.west, { intents: allIntents }),
    ...[lin!, mo!, eve!].map(person => person.listen(shared.west)),
  ])
  await shared.settle()
  await ask(inbox, server_id, [lin!], true)
  await ask(inbox, server_id, [eve!])
  await ask(quiet, server_id, [lin!], false)
  for (const listener of [inbox, quiet]) listener.rest()

  for (const person of [lin!, mo!, eve!]) await person.on(shared.west).updatePresence({ status: "idle" })
  const change = {
    where: ({ user_id, status }: { user_id: string; status: string }) => user_id === lin!.id && status === "idle",
  }
  expect(await inbox.next("PRESENCE_UPDATE", change)).toMatchObject({ status: "idle", custom_status: null })
  // A later request adds: what was asked before is still told.
  await ask(inbox, server_id, [mo!], true)
  for (const person of [lin!, mo!]) {
    await person.on(shared.west).updatePresence({ status: "dnd" })
    const where = ({ user_id, status }: { user_id: string; status: string }) =>
      user_id === person.id && status === "dnd"
    expect(await inbox.next("PRESENCE_UPDATE", { where })).toMatchObject({ status: "dnd" })
  }
  await shared.settle()
  expect(updatesIn(inbox)).not.toContain(eve!.id)
  expect(updatesIn(quiet).filter(user => user !== ada!.id)).toEqual([])
})

test("a user who blocks looks offline, and a user who has left is not told of any more", async ({ shared }) => {
  const [ada, lin, mo, eve] = await Promise.all(["ada", "lin", "mo", "eve"].map(name => shared.person(name)))
  const { server_id } = await plantServer(shared, { owner: ada!, members: [lin!, mo!, eve!] })
  const [inbox] = await Promise.all([
    ada!.listen(shared.east, { intents: allIntents }),
    ...[lin!, mo!, eve!].map(person => person.listen(shared.west)),
  ])
  await shared.settle()
  await ask(inbox, server_id, [lin!, mo!, eve!], true)
  await lin!.on(shared.west).blockUser({ user_id: ada!.id })
  await mo!.on(shared.west).leaveServer({ server_id })
  inbox.rest()
  for (const person of [lin!, mo!, eve!]) await person.on(shared.west).updatePresence({ status: "dnd" })
  // That they are online may still be on its way.
  const of = ({ id }: Person) => ({
    where: ({ user_id, status }: { user_id: string; status: string }) => user_id === id && status !== "online",
  })
  expect(await inbox.next("PRESENCE_UPDATE", of(eve!))).toMatchObject({ status: "dnd" })
  expect(await inbox.next("PRESENCE_UPDATE", of(lin!))).toMatchObject({ status: "offline" })
  await shared.settle()
  expect(updatesIn(inbox)).not.toContain(mo!.id)
})
