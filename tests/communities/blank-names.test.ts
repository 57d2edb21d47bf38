/** Names are what people tell things apart by, so something of each can be seen. */
import { refusal } from "../kit/conformance.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"

/** Spaces of any kind, characters of no width, marks that belong to no letter. */
const blanks = [
  "   ",
  "\u3000\u2003\u00a0",
  "\u200b\u200d\u2060",
  "\u3164\u115f",
  "\u0301\u0308",
  "\u2800\u2800",
  "\u2028",
]

test("a name of which nothing can be seen is refused", async ({ shared }) => {
  const { server, channel, ada } = await shared.seed(sharedServer)
  const rest = ada.on(shared.east)
  const [server_id, channel_id] = [server.id, channel.id]
  const role = await rest.createRole({ server_id, name: "visible" })
  for (const name of blanks) {
    const tries: Record<string, Promise<unknown>> = {
      server: rest.createServer({ name }),
      rename: rest.editServer({ server_id, name }),
      channel: rest.createChannel({ server_id, name }),
      channelEdit: rest.editChannel({ channel_id, name }),
      role: rest.createRole({ server_id, name }),
      roleEdit: rest.editRole({ server_id, role_id: role.id, name }),
      webhook: rest.createWebhook({ channel_id, name }),
    }
    for (const [what, call] of Object.entries(tries))
      expect([what, await refusal(call)]).toEqual([what, "validation_failed"])
  }
})

test("a nickname of which nothing can be seen is refused, or none where only space was around it", async ({
  shared,
}) => {
  const { server, ada } = await shared.seed(sharedServer)
  const { editOwnMember } = ada.on(shared.west)
  for (const nickname of ["\u200b", "\u3164", "\u0301", "\u2800"])
    expect(await refusal(editOwnMember({ server_id: server.id, nickname }))).toBe("validation_failed")
  await editOwnMember({ server_id: server.id, nickname: "  " })
  // A letter with its mark, an emoji, and a right-to-left name are seen.
  for (const nickname of ["e\u0301", "👩‍👩‍👧", "عربي", "नि"]) await editOwnMember({ server_id: server.id, nickname })
})
