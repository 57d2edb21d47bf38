/** `token_binding`: a token is good only for the address and the user agent that signed in. */
import { routes } from "../../src/contract/contract.ts"
import type { LoginReply } from "../../src/contract/accounts/auth.ts"
import type { Worker } from "../kit/cluster.ts"
import { send } from "../kit/exchange.ts"
import type { Person, Endpoint } from "../kit/person.ts"
import { closedWith, identified, open } from "../kit/raw.ts"
import { expect, testWith } from "../kit/test.ts"

const proxied = { TRUSTED_PROXIES: "127.0.0.1" }
const test = testWith({ config: proxied })

const [here, there] = ["198.18.1.1", "198.18.1.2"]
const from = (address: string, agent: string) => ({ headers: { "x-forwarded-for": address, "user-agent": agent } })
async function signIn(place: Endpoint, { username, password }: Person): Promise<string> {
  const body = { username, password }
  const sending = { route: routes.login, method: "POST", body, ...from(here, "Client/1") }
  return ((await send(place, "/api/v1/auth/login", sending)).body as LoginReply).token!
}
const getMe = async (place: Endpoint, token: string, address: string, agent: string) =>
  (await send(place, "/api/v1/users/@me", { route: routes.getMe, token, ...from(address, agent) })).code

test("with token_binding a token is refused from another address and from another user agent, over REST and the gateway", async ({
  cluster,
}) => {
  const config = { ...proxied, STARLING_TOKEN_BINDING: "true" }
  const [east, west] = (await cluster.boot(2, { config })) as [Worker, Worker]
  const token = await signIn(east, await cluster.person("ada"))
  for (const place of [east, west]) {
    expect(await getMe(place, token, here, "Client/1")).toBeUndefined()
    expect(await getMe(place, token, there, "Client/1")).toBe("revoked_token")
    expect(await getMe(place, token, here, "Client/2")).toBe("revoked_token")
  }
  const raw = await identified(west, token, from(here, "Client/1"))
  const { session_id } = raw.frames[1]!.d as { session_id: string }
  const again = { op: 6, d: { token, session_id, seq: raw.frames[1]!.s } }
  const wrong = [from(there, "Client/1"), from(here, "Client/2"), { headers: { "x-forwarded-for": here } }]
  for (const options of wrong) {
    const other = await open(east, options)
    other.say(again)
    expect(await other.op(9)).toEqual({ op: 9, d: false })
    other.say({ op: 2, d: { token } })
    expect(await other.ended).toEqual(closedWith("authentication_failed"))
  }
  // What the client says of itself stands for the header.
  for (const browser of ["browser", "$browser"]) {
    const properties = { [browser]: "Client/1" }
    ;(await identified(east, token, { ...from(here, "Client/2"), d: { properties } })).close()
    const back = await open(east, from(here, "Client/2"))
    back.say({ ...again, d: { ...again.d, properties } })
    await back.event("RESUMED")
    back.close()
  }
  const lying = await open(east, from(here, "Client/1"))
  lying.say({ op: 2, d: { token, properties: { browser: "Client/2" } } })
  expect(await lying.ended).toEqual(closedWith("authentication_failed"))
})

test("without it a token is good wherever it comes from", async ({ shared }) => {
  const token = await signIn(shared.east, await shared.person("ada"))
  expect(await getMe(shared.west, token, there, "Client/2")).toBeUndefined()
  ;(await identified(shared.west, token, from(there, "Client/2"))).close()
})
