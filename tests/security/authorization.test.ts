import { operatorRoutes, routes } from "../../src/contract/contract.ts"
import { isForUsers } from "../../src/contract/core/registry.ts"
import { everyRequest, expected, nonsense, plantGuests, requests, requestsOf, verdict } from "../kit/authorization.ts"
import { refusal } from "../kit/conformance.ts"
import { clientAt } from "../kit/person.ts"
import { dmBetween } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"

test("every route has a request with which everybody tries it", () => {
  const missing = Object.keys(routes).filter(name => !(name in requests) && !(name in operatorRoutes))
  expect(missing, "add a harmless request for each to `requests` in tests/kit/authorization.ts").toEqual([])
})

test(
  "everybody gets what the contract says to them, on the worker of the home and on the other",
  { timeout: 120_000 },
  async ({ shared }) => {
    const guests = await plantGuests(shared)
    const wrong = await Promise.all(
      guests.map(async ({ caller, token, scene }, i) => {
        const found: string[] = []
        for (const [j, request] of requestsOf(caller).entries()) {
          const rest = clientAt((i + j) % 2 === 0 ? shared.east : shared.west, token)
          const right = expected(request, caller)
          const told = await verdict(request.name, request.call(rest, scene))
          if (told !== right) found.push(`${request.name} ${request.at}, ${caller.name}: ${told}, not ${right}`)
        }
        return found
      }),
    )
    expect(wrong.flat()).toEqual([])
  },
)

test("without a token they are 401 before anything else is looked at", async ({ shared }) => {
  const nobody = clientAt(shared.east)
  for (const { name, call } of everyRequest) {
    if (!isForUsers(routes[name])) continue
    const missing = name === "refresh" ? "missing_token" : "authentication_required"
    expect([name, await verdict(name, call(nobody, nonsense))]).toEqual([name, missing])
  }
})

test("a conversation of others is not there, whatever is asked of it; to its members every refusal is declared", async ({
  shared,
}) => {
  const { east, west } = shared
  const [ada, lin, eve] = await Promise.all(["ada", "lin", "eve"].map(name => shared.person(name)))
  const rest = ada!.on(east)
  const { id: notes } = await rest.getNotes()
  for (const channel_id of [await dmBetween(ada!, lin!, west), notes]) {
    const { id } = await rest.createMessage({ channel_id, content: "between us" })
    const scene: typeof nonsense = {
      ...nonsense,
      channel_id,
      doomed_channel_id: channel_id,
      voice_id: channel_id,
      message_id: id,
      own_message_id: id,
      doomed_message_id: id,
      role_id: lin!.id,
      member_id: lin!.id,
    }
    const asked = everyRequest.filter(({ name }) => routes[name].path.includes("/:channel_id"))
    expect(asked.length).toBeGreaterThan(20)
    for (const { name, call } of asked) {
      const found = await call(eve!.on(west), scene).then(
        () => "granted",
        () => refusal(call(eve!.on(west), scene)),
      )
      expect([name, found]).toEqual([name, "channel_not_found"])
    }
    // What is not declared is noted as a breach.
    for (const { call } of asked) await call(rest, scene).catch(() => {})
  }
})
