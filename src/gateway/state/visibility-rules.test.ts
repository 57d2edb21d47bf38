import fc from "fast-check"
import { expect, test } from "vitest"
import type { Channel } from "../../contract/communities/channels.ts"
import type { Permission } from "../../contract/core/permissions.ts"
import type { RulesChange } from "../../domain/core/control.ts"
import type { Override } from "../../domain/core/overrides.ts"
import { VisibilityRules, viewChanges } from "./visibility-rules.ts"

const channel = { id: "20", server_id: "1", name: "hidden" } as Channel
const [ada, lin, mo] = ["90", "91", "92"].map(user_id => ({ user_id, roles: [] }))

const hidden = () =>
  new VisibilityRules({
    id: "1",
    owner_id: ada!.user_id,
    roles: new Map([["1", { permissions: new Set(["channels.view"] as const) }]]),
    channels: new Map([
      ["20", { channel, overrides: [{ target_id: "1", type: "role", allow: [], deny: ["channels.view"] }] }],
    ]),
  })
const owners = (before: string, after: string): RulesChange => ({
  type: "server",
  server: "1",
  before: { name: "Server", owner_id: before },
  after: { name: "Server", owner_id: after },
})

test("what only the owner sees goes to the new owner with the ownership, and back when the change is undone", () => {
  const from = hidden()
  const change = owners("90", "91")
  const to = from.after(change)
  from.next = { at: 1, change, to }
  expect(viewChanges(from, ada!, to, ada!)).toEqual({ gained: [], lost: ["20"] })
  expect(viewChanges(from, lin!, to, lin!)).toEqual({ gained: [channel], lost: [] })
  expect(viewChanges(from, mo!, to, mo!)).toEqual({ gained: [], lost: [] })
  const viewers = { kind: "viewers", server: "1", channel: "20" } as const
  expect([ada!, lin!, mo!].map(one => to.includes(viewers, one))).toEqual([false, true, false])
  expect([ada!, lin!].map(one => to.subscribedKeys(one).length)).toEqual([1, 2])

  const back = to.after(change, true)
  expect([ada!, lin!, mo!].map(one => back.mayView("20", one))).toEqual([true, false, false])
})

const channelOf = (id: string) => ({ id, server_id: "1", name: id }) as Channel
const overridesOf = ["1", "2", "3", "90", "91", "92"].map((target_id, i) =>
  fc
    .record({
      allow: fc.subarray<Permission>(["channels.view", "messages.send"]),
      deny: fc.subarray<Permission>(["channels.view"]),
    })
    .map((says): Override => ({ target_id, type: i < 3 ? "role" : "member", ...says })),
)
const overrides: fc.Arbitrary<Override[]> = fc
  .tuple(...overridesOf.map(one => fc.option(one)))
  .map(several => several.filter(one => one !== null))
const permissions = fc.subarray<Permission>(["channels.view", "administrator", "messages.send"])
const rules = fc
  .record({
    owner_id: fc.constantFrom("90", "91"),
    roles: fc.tuple(permissions, fc.option(permissions), fc.option(permissions)),
    channels: fc.array(overrides, { minLength: 1, maxLength: 3 }),
  })
  .map(
    ({ owner_id, roles, channels }) =>
      new VisibilityRules({
        id: "1",
        owner_id,
        roles: new Map(roles.flatMap((held, i) => (held ? [[String(i + 1), { permissions: new Set(held) }]] : []))),
        channels: new Map(
          channels.map((said, i) => [String(20 + i), { channel: channelOf(String(20 + i)), overrides: said }]),
        ),
      }),
  )

/** A change of every type, as a home says it: of what is there, of what comes and of what goes. */
const changeOf = (from: VisibilityRules): fc.Arbitrary<RulesChange> => {
  const place = fc.constantFrom("20", "21", "22", "23")
  return fc.oneof(
    fc.tuple(fc.constantFrom("1", "2", "3"), fc.option(permissions)).map(([role, after]): RulesChange => {
      const known = from.roles.get(role)
      const change = { type: "role", server: "1", role, before: known ? [...known.permissions] : null, after } as const
      if (after) return change
      const said = [...from.channels].flatMap(([id, { overrides: all }]) =>
        all.filter(({ target_id }) => target_id === role).map(one => [id, one] as const),
      )
      return { ...change, overrides: said }
    }),
    fc.tuple(place, fc.boolean()).map(([channel, goes]): RulesChange => {
      const known = from.channels.get(channel)
      const after = known && goes ? null : channelOf(channel)
      const gone = known && goes ? { overrides: known.overrides } : {}
      return { type: "channel", server: "1", channel, before: known?.channel ?? null, after, ...gone }
    }),
    place.map((channel): RulesChange => {
      const move = { channel, before: { position: 0, category_id: null }, after: { position: 1, category_id: null } }
      return { type: "channelsMoved", server: "1", moves: [move] }
    }),
    fc.tuple(place, overrides).map(([channel, after]): RulesChange => {
      const before = from.channels.get(channel)?.overrides ?? []
      return { type: "overrides", server: "1", channel, shown: channelOf(channel), before, after }
    }),
    fc.constantFrom("90", "91").map(after => owners(from.owner_id, after)),
  )
}

test("what one change lets a member view and no longer is what the views of all channels say, also where it is taken back", () => {
  const members = fc.tuple(
    ...["90", "91", "92"].map(user_id => fc.subarray(["2", "3"]).map(roles => ({ user_id, roles }))),
  )
  const changed = rules.chain(from => changeOf(from).map(change => ({ from, change })))
  const seen = new Map<string, number>()
  fc.assert(
    fc.property(changed, members, ({ from, change }, people) => {
      const to = from.after(change)
      const back = to.after(change, true)
      for (const id of from.channels.keys()) {
        const viewers = { kind: "viewers", server: "1", channel: id } as const
        expect(back.audienceKey(viewers)).toBe(from.audienceKey(viewers))
        for (const person of people) expect(back.mayView(id, person)).toBe(from.mayView(id, person))
      }
      const isGone = change.type === "role" && !change.after
      if (isGone)
        for (const { overrides: left } of to.channels.values())
          expect(left.map(({ target_id }) => target_id)).not.toContain(change.role)
      from.next = { at: 1, change, to }
      back.next = { at: 1, change, to }
      for (const person of people)
        for (const [one, other] of [
          [from, to],
          [back, to],
          [to, back],
        ] as const) {
          const [was, is] = [one.visibleTo(person), other.visibleTo(person)]
          const gained = [...is].filter(id => !was.has(id) && one.channels.has(id))
          const lost = [...was].filter(id => !is.has(id) && other.channels.has(id))
          const told = viewChanges(one, person, other, person)
          expect({ gained: told.gained.map(({ id }) => id), lost: told.lost }).toEqual({ gained, lost })
          if (gained.length + lost.length > 0) seen.set(change.type, (seen.get(change.type) ?? 0) + 1)
        }
    }),
    { numRuns: 500 },
  )
  // Only these change what somebody sees of channels that stay.
  expect([...seen.keys()].toSorted()).toEqual(["overrides", "role", "server"])
})
