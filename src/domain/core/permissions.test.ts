import fc from "fast-check"
import { expect, test } from "vitest"
import { aliasNames, permissionNames, type Permission } from "../../contract/core/permissions.ts"
import type { Override } from "./overrides.ts"
import { maskOf, namesIn } from "./permission-masks.ts"
import {
  holds,
  holdsIn,
  loosened,
  notHisToGrant,
  permissionMap,
  rankOf,
  renumbered,
  type Holder,
} from "./permissions.ts"

const few: Permission[] = ["channels.view", "messages.send", "roles.manage", "administrator"]
const some = fc.uniqueArray(fc.constantFrom(...few), { maxLength: 3 })
const masks = some.map(maskOf)
const roleIds = ["1", "10", "11", "12"]
const users = ["90", "91", "92"]

const server = fc
  .tuple(some, some, some, some, fc.shuffledSubarray([1, 2, 3], { minLength: 3 }))
  .map(([everyone, a, b, c, positions]) => ({
    id: "1",
    owner_id: "90",
    roles: new Map(
      [everyone, a, b, c].map((names, i) => [
        roleIds[i]!,
        { id: roleIds[i]!, permissions: new Set(names), position: i === 0 ? 0 : positions[i - 1]! },
      ]),
    ),
  }))
/** A role may be gone, and still be named. */
const member = fc.record({
  user_id: fc.constantFrom(...users),
  roles: fc.uniqueArray(fc.constantFrom("10", "11", "12", "13")),
})
const override: fc.Arbitrary<Override> = fc.oneof(
  fc.record({
    type: fc.constant("role" as const),
    target_id: fc.constantFrom(...roleIds, "13"),
    allow: masks,
    deny: masks,
  }),
  fc.record({ type: fc.constant("member" as const), target_id: fc.constantFrom(...users), allow: masks, deny: masks }),
)
const overrides = fc.uniqueArray(override, { maxLength: 5, selector: ({ target_id }) => target_id })
const permission = fc.constantFrom(...few)

test("one who is neither owner nor administrator holds what their roles grant, and administrators everything", () => {
  fc.assert(
    fc.property(server, member, permission, (server, member, permission) => {
      const granted = new Set(["1", ...member.roles].flatMap(role => [...(server.roles.get(role)?.permissions ?? [])]))
      const all = member.user_id === server.owner_id || granted.has("administrator")
      expect(holds(server, member, permission)).toBe(all || granted.has(permission))
    }),
  )
})

/** The rule as the documentation tells it: a set from which each layer first takes, then gives. */
function layered(server: Parameters<typeof holds>[0], all: readonly Override[], member: Holder): Set<Permission> {
  const held = new Set(permissionNames.filter(name => holds(server, member, name)))
  if (held.has("administrator")) return held
  const layers = [
    all.filter(({ type, target_id }) => type === "role" && target_id === server.id),
    all.filter(
      ({ type, target_id }) =>
        type === "role" && target_id !== server.id && member.roles.includes(target_id) && server.roles.has(target_id),
    ),
    all.filter(({ type, target_id }) => type === "member" && target_id === member.user_id),
  ]
  for (const layer of layers) {
    for (const name of layer.flatMap(({ deny }) => namesIn(deny))) held.delete(name)
    for (const name of layer.flatMap(({ allow }) => namesIn(allow))) held.add(name)
  }
  return held
}

test("in a channel @everyone's override comes first, then the roles' together, then the member's own", () => {
  fc.assert(
    fc.property(server, overrides, member, permission, (server, overrides, member, permission) => {
      fc.pre(permission !== "administrator")
      expect(holdsIn(server, overrides, member, permission)).toBe(layered(server, overrides, member).has(permission))
    }),
    { numRuns: 2_000 },
  )
})

test("nobody grants what they do not hold; what was granted before is no grant", () => {
  fc.assert(
    fc.property(server, member, some, some, (server, member, granted, before) => {
      const wrong = granted.filter(name => !before.includes(name) && !holds(server, member, name))
      const found = notHisToGrant(server, member, granted, new Set(before))
      if (wrong.length === 0) expect(found).toBeUndefined()
      else expect(wrong).toContain(found)
    }),
  )
})

test("whatever an override newly lets somebody do is named", () => {
  const base = fc.constantFrom("role" as const).map(type => ({ type, target_id: "10" }))
  fc.assert(
    fc.property(server, base, fc.tuple(masks, masks), fc.tuple(masks, masks), (server, base, [a, d], [allow, deny]) => {
      const before: Override = { ...base, allow: a, deny: d }
      const after: Override = { ...base, allow, deny }
      const holder = { user_id: "91", roles: ["10"] }
      const looser = few.filter(
        name => !holdsIn(server, [before], holder, name) && holdsIn(server, [after], holder, name),
      )
      expect(loosened(before, after)).toEqual(expect.arrayContaining(looser))
    }),
  )
})

test("a moved role keeps the others' order, and nobody moves one past their own", () => {
  fc.assert(
    fc.property(
      server,
      member,
      fc.constantFrom("10", "11", "12"),
      fc.integer({ min: 1, max: 5 }),
      (server, actor, moved, to) => {
        const rank = rankOf(server, actor)
        const from = server.roles.get(moved)!.position
        const isBelow = (position: number) => (to > from ? position <= to : position < to)
        const positions = renumbered(server.roles.values(), server.id, moved, isBelow)
        expect([...positions.values()]).toEqual([1, 2, 3])
        const order = (of: (id: string) => number) =>
          ["10", "11", "12"].filter(id => id !== moved).toSorted((a, b) => of(a) - of(b))
        expect(order(id => positions.get(id)!)).toEqual(order(id => server.roles.get(id)!.position))
        if (from >= rank || to >= rank) return
        const own = actor.roles.find(id => server.roles.get(id)?.position === rank)
        if (own !== undefined) expect(positions.get(moved)!).toBeLessThan(positions.get(own)!)
      },
    ),
  )
})

test("the map of a member says of every name what they hold then", () => {
  const roles = new Map([
    ["1", { permissions: new Set<Permission>(["messages.send", "channels.view"]) }],
    ["10", { permissions: new Set<Permission>(["channels.manage"]) }],
  ])
  const rules = { id: "1", owner_id: "90", roles }
  const map = (user_id: string, overrides: Override[] = [], timeout_until: number | null = null) => {
    const found = permissionMap(rules, overrides, { user_id, roles: ["10"], timeout_until }, 5_000)
    return Object.keys(found).filter(name => found[name])
  }
  expect(map("90", [], 6)).toEqual([...permissionNames, ...aliasNames])
  expect(map("91")).toEqual(
    "channels.manage channels.view messages.send server.view channel.create message.send".split(" "),
  )
  expect(map("91", [], 6)).toEqual(["channels.manage", "channels.view", "server.view", "channel.create"])
  // It is over.
  expect(map("91", [], 5)).toContain("message.send")
  const muted: Override = {
    target_id: "1",
    type: "role",
    allow: maskOf(["voice.speak"]),
    deny: maskOf(["messages.send"]),
  }
  expect(map("91", [muted])).toEqual("channels.manage channels.view voice.speak server.view channel.create".split(" "))
})
