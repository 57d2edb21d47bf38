import { sharedServer } from "./kit/seeds.ts"
import { expect, test } from "./kit/test.ts"

test("P2: a message reaches a session on another worker exactly once", async ({ cluster }) => {
  const [east, west] = await cluster.boot(2)
  const { channel, ada, lin } = await cluster.seed(sharedServer)
  const inbox = await lin.listen(west!, { encoding: "msgpack" })
  const sent = await ada.on(east!).createMessage({ channel_id: channel.id, content: "hello", nonce: "n1" })
  expect(await inbox.next("MESSAGE_CREATE")).toMatchObject({ id: sent.id })
  await cluster.settle()
  expect(inbox.rest()).toEqual([])
})
test("processes", async ({ cluster }) => {
  const t = performance.now()
  const program = await cluster.processes(2)
  const ada = await cluster.person("ada")
  await ada.on(program).getMe()
  console.log(await program.workers(), performance.now() - t)
})
test("shared", async ({ shared }) => {
  const { ada } = await shared.seed(sharedServer)
  await ada.on(shared.east).getMe()
})
