/** The client's arithmetic of permissions is the server's, of which it is a second version. */
import fc from "fast-check"
import { expect, test } from "vitest"
import { permissionNames, type Permission } from "../src/contract/core/permissions.ts"
import { maskOf, namesIn } from "../src/domain/core/permission-masks.ts"
import type { Override } from "../src/domain/core/overrides.ts"
import { permissionMap, rankOf } from "../src/domain/core/permissions.ts"
import { permissionsIn, rankIn } from "./permissions.ts"

const few: Permission[] = ["channels.view", "messages.send", "voice.connect", "roles.manage", "administrator"]
const some = fc.uniqueArray(fc.constantFrom(...few), { maxLength: 3 })
const roleIds = ["1", "10", "11", "12"]
const users = ["90", "91", "92"]

const roles = fc
  .tuple(some, some, some, some)
  .map(
    granted =>
      new Map(granted.map((names, i) => [roleIds[i]!, { permissions: new Set<Permission>(names), position: i }])),
  )
/** A role may be gone, and still be named. */
const member = fc.record({
  user_id: fc.constantFrom(...users),
  roles: fc.uniqueArray(fc.constantFrom("10", "11", "12", "13")),
  timeout_until: fc.constantFrom(null, 4, 6),
})
const override: fc.Arbitrary<Override> = fc
  .tuple(fc.constantFrom(...roleIds, "13", ...users), some.map(maskOf), some.map(maskOf))
  .map(([target_id, allow, deny]) => ({ target_id, type: users.includes(target_id) ? "member" : "role", allow, deny }))
const overrides = fc.uniqueArray(override, { maxLength: 5, selector: ({ target_id }) => target_id })

test("what a client works out of roles and overrides is what the server says, and the last step of each reason decides", () => {
  fc.assert(
    fc.property(roles, overrides, member, fc.boolean(), (roles, overrides, member, namesEveryone) => {
      const rules = { id: "1", owner_id: "90", roles }
      const shown = new Map(
        [...roles].map(([id, { permissions, position }]) => [
          id,
          { position, permissions: Object.fromEntries(permissionNames.map(name => [name, permissions.has(name)])) },
        ]),
      )
      const listed = overrides.map(({ target_id, type, allow, deny }) => ({
        channel_id: "5",
        target_id,
        type,
        allow: namesIn(allow),
        deny: namesIn(deny),
      }))
      // Members are listed with `@everyone` among their roles.
      const listedMember = namesEveryone ? { ...member, roles: ["1", ...member.roles] } : member
      const found = permissionsIn({ ...rules, roles: shown }, listedMember, listed, 5_000)
      const said = permissionMap(rules, overrides, member, 5_000)
      for (const name of [...few, "messages.read" as const]) {
        // An override cannot contain it.
        if (name === "administrator") continue
        expect([name, found[name]!.isHeld]).toEqual([name, said[name]])
        expect(found[name]!.steps.at(-1)?.allows ?? false).toBe(said[name])
        for (const { id } of found[name]!.steps) expect([...roles.keys(), member.user_id]).toContain(id)
      }
      expect(rankIn({ ...rules, roles: shown }, listedMember)).toBe(rankOf(rules, member))
    }),
    { numRuns: 500 },
  )
})
