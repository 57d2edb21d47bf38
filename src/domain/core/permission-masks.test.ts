import fc from "fast-check"
import { expect, test } from "vitest"
import { permissionNames } from "../../contract/core/permissions.ts"
import { includes, maskOf, namesIn, permissionBits } from "./permission-masks.ts"

/** Every bit that was ever given, in order. Lines are added at the end, and none is changed: rows of installations hold them. */
const given = [
  "server.manage",
  "server.view_audit_log",
  "server.automod",
  "channels.manage",
  "channels.view",
  "roles.manage",
  "members.kick",
  "members.ban",
  "members.manage_nicknames",
  "members.manage_roles",
  "invites.create",
  "invites.manage",
  "emojis.manage",
  "webhooks.manage",
  "bans.view",
  "messages.send",
  "messages.read",
  "messages.manage",
  "messages.embed_links",
  "messages.attach_files",
  "messages.mention_everyone",
  "messages.add_reactions",
  "messages.use_external_emojis",
  "messages.bypass_slowmode",
  "voice.connect",
  "voice.speak",
  "voice.mute_members",
  "voice.deafen_members",
  "voice.move_members",
  "events.manage",
  "events.view",
  "templates.manage",
  "onboarding.manage",
  "administrator",
]

test("a permission keeps the bit that it was given, for ever", () => {
  const bits: Record<string, number> = permissionBits
  for (const [name, bit] of Object.entries(bits)) expect(given[bit], `bit ${bit}`).toBe(name)
  expect(Object.keys(bits)).toEqual(expect.arrayContaining([...permissionNames]))
  expect(Math.max(...Object.values(bits))).toBeLessThanOrEqual(52)
  // What stands in a row reads as it was written.
  expect(namesIn(0b1_0000)).toEqual(["channels.view"])
  expect(namesIn(8_589_934_592)).toEqual(["administrator"])
})

test("a mask says of every permission whether it is in it, and keeps what this version does not know", () => {
  fc.assert(
    fc.property(fc.subarray([...permissionNames]), fc.boolean(), (names, isNewer) => {
      const mask = maskOf([...names, ...names]) + (isNewer ? 2 ** 52 : 0)
      expect(Number.isSafeInteger(mask)).toBe(true)
      expect(permissionNames.filter(name => includes(mask, name))).toEqual(names)
      expect(namesIn(mask)).toEqual(names)
      expect(JSON.parse(JSON.stringify(mask))).toBe(mask)
    }),
  )
})
