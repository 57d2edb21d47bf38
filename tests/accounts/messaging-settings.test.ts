import { opcodes } from "../../src/contract/core/gateway-codes.ts"
import { refusal } from "../kit/conformance.ts"
import { send } from "../kit/exchange.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"

const defaults = {
  read_receipts_enabled: true,
  typing_indicators_enabled: true,
  compact_messages_enabled: true,
  allow_dms_from: "everyone",
  auto_create_dms: true,
  max_message_length: null,
  max_attachment_size: null,
  max_attachments_per_message: null,
}

test("they begin with the defaults, and what is left out stays", async ({ shared }) => {
  const [ada, lin] = await Promise.all([shared.person("ada"), shared.person("lin")])
  const [east, west] = [ada.on(shared.east), ada.on(shared.west)]
  const usual = { user_id: ada.id, ...defaults }
  expect(await west.getMessagingSettings()).toEqual(usual)
  expect(await east.editMessagingSettings({})).toEqual(usual)
  expect(await east.editMessagingSettings({ compact_messages_enabled: false })).toEqual({
    ...usual,
    compact_messages_enabled: false,
  })
  const changed = { ...usual, compact_messages_enabled: false, allow_dms_from: "none", auto_create_dms: false }
  expect(await west.editMessagingSettings({ allow_dms_from: "none", auto_create_dms: false })).toEqual(changed)
  for (const rest of [east, west]) expect(await rest.getMessagingSettings()).toEqual(changed)
  expect(await lin.on(shared.east).getMessagingSettings()).toEqual({ user_id: lin.id, ...defaults })
})

test("changes made at the same time are all kept", async ({ shared }) => {
  const ada = await shared.person("ada")
  const changes = [
    { read_receipts_enabled: false },
    { typing_indicators_enabled: false },
    { compact_messages_enabled: false },
    { allow_dms_from: "friends" as const },
    { auto_create_dms: false },
  ]
  await Promise.all(
    changes.map((change, i) => ada.on(i % 2 === 0 ? shared.east : shared.west).editMessagingSettings(change)),
  )
  expect(await ada.on(shared.west).getMessagingSettings()).toMatchObject(Object.assign({}, ...changes) as object)
})

test("nobody lifts their own limits, and unknown values are refused", async ({ shared }) => {
  const ada = await shared.person("ada")
  const body = { user_id: "1", max_message_length: 9, max_attachment_size: 9, max_attachments_per_message: 9 }
  const path = "/api/v1/users/@me/messaging-settings"
  const answer = await send(shared.east, path, { method: "PATCH", token: ada.token, body })
  expect([answer.status, answer.body]).toEqual([200, { user_id: ada.id, ...defaults }])
  const { editMessagingSettings, getMessagingSettings } = ada.on(shared.east)
  for (const wrong of [
    { allow_dms_from: "nobody" },
    { allow_dms_from: "" },
    { read_receipts_enabled: "yes" },
    { auto_create_dms: 1 },
    { allow_dms_from: "none", typing_indicators_enabled: "no" },
  ])
    expect(await refusal(editMessagingSettings(wrong as never))).toBe("validation_failed")
  expect(await getMessagingSettings()).toEqual({ user_id: ada.id, ...defaults })
})

test("users who do not want others to see that they type are not seen typing, over REST and the gateway", async ({
  shared,
}) => {
  const { channel, ada, lin } = await shared.seed(sharedServer)
  const channel_id = channel.id
  const [inbox, own] = await Promise.all([lin.listen(shared.east), ada.listen(shared.west)])
  await ada.on(shared.east).editMessagingSettings({ typing_indicators_enabled: false })
  for (const place of [shared.east, shared.west])
    expect(await ada.on(place).startTyping({ channel_id })).toEqual({ success: true })
  own.typing(channel_id)
  own.send({ op: opcodes.TYPING_STOP.op, d: { channel_id } })
  // An answered heartbeat has the frames before it in front.
  await own.heartbeatNow()
  await shared.settle()
  expect(inbox.rest()).toEqual([])
  // Access is asked for all the same.
  const stranger = await shared.person("stranger")
  await stranger.on(shared.east).editMessagingSettings({ typing_indicators_enabled: false })
  expect(await refusal(stranger.on(shared.west).startTyping({ channel_id }))).toBe("access_denied")

  await ada.on(shared.west).editMessagingSettings({ typing_indicators_enabled: true })
  own.typing(channel_id)
  expect((await inbox.next("TYPING_START")).user_id).toBe(ada.id)
})
