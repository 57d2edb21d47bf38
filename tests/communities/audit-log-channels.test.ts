/** The audit log tells its reader nothing of channels that they may not view. */
import { sharedServer } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"

test("names and changes of a hidden channel, its overrides and webhooks are left out, for administrators not", async ({
  shared,
}) => {
  const { ada, lin, server } = await shared.seed(sharedServer)
  const server_id = server.id
  const owner = ada.on(shared.east)
  const auditor = await owner.createRole({ server_id, name: "Auditor", permissions: { "server.view_audit_log": true } })
  await owner.giveRole({ server_id, member_id: lin.id, role_id: auditor.id })
  const [open, secret, gone] = [
    await owner.createChannel({ server_id, name: "open-plans" }),
    await owner.createChannel({ server_id, name: "secret-plans" }),
    await owner.createChannel({ server_id, name: "secret-past" }),
  ]
  for (const { id } of [secret, gone])
    await owner.setOverride({ channel_id: id, target_id: server_id, type: "role", allow: [], deny: ["channels.view"] })
  await owner.editChannel({ channel_id: secret.id, topic: "secret-topic" })
  await owner.createWebhook({ channel_id: secret.id, name: "secret-hook" })
  await owner.createWebhook({ channel_id: open.id, name: "open-hook" })
  await owner.deleteChannel({ channel_id: gone.id })

  const seen = await lin.on(shared.west).listAuditLog({ server_id })
  expect(JSON.stringify(seen)).not.toContain("secret-")
  expect(seen.find(({ target_id }) => target_id === secret.id)).toMatchObject({ target_name: null, changes: {} })
  for (const name of ["open-plans", "open-hook", "Auditor"])
    expect(seen.map(entry => entry.target_name)).toContain(name)
  const all = await owner.listAuditLog({ server_id })
  expect(all).toHaveLength(seen.length)
  for (const name of ["secret-plans", "secret-past", "secret-hook", "secret-topic"])
    expect(JSON.stringify(all)).toContain(name)
})
