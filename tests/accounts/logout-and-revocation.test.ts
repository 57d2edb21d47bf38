import { clientAt } from "../kit/person.ts"
import { refusal } from "../kit/conformance.ts"
import { send } from "../kit/exchange.ts"
import { sharedServer } from "../kit/seeds.ts"
import { expect, test } from "../kit/test.ts"
import { until } from "../kit/until.ts"

test("OUT2, P12: after a logout no worker takes the token, not even from its cache", async ({ shared }) => {
  const { channel, lin } = await shared.seed(sharedServer)
  const other = await lin.signIn(shared.west)
  const places = [shared.east, shared.west]
  for (const place of places) await lin.on(place).getMe()
  await lin.on(shared.east).logout()
  for (const place of places) {
    expect(await refusal(lin.on(place).getMe())).toBe("revoked_token")
    expect(await refusal(lin.on(place).createMessage({ channel_id: channel.id, content: "late" }))).toBe(
      "revoked_token",
    )
    expect(await refusal(lin.on(place).logout())).toBe("revoked_token")
    expect((await other.on(place).getMe()).id).toBe(lin.id)
  }
  expect(await other.on(shared.east).listMessages({ channel_id: channel.id })).toEqual([])
})

test("P12: a logout closes the session's gateway connections with 4004 on every worker, and no others", async ({
  shared,
}) => {
  const { channel, ada, lin } = await shared.seed(sharedServer)
  const other = await lin.signIn(shared.west)
  const [east, west, kept] = await Promise.all([
    lin.listen(shared.east),
    lin.listen(shared.west, { encoding: "msgpack" }),
    other.listen(shared.east),
  ])
  await lin.on(shared.west).logout()
  for (const client of [east, west]) expect((await client.ended()).code).toBe(4004)
  const sent = await ada.on(shared.west).createMessage({ channel_id: channel.id, content: "who is left?" })
  expect((await kept.next("MESSAGE_CREATE")).id).toBe(sent.id)
  expect([...east.rest(), ...west.rest()]).toEqual([])
  await expect(lin.listen(shared.east)).rejects.toMatchObject({ code: 4004 })
})

test("P12: an IDENTIFY whose token was good when it began gets no session when the logout was answered before READY", async ({
  cluster,
}) => {
  const [worker] = await cluster.boot(1)
  const { lin } = await cluster.seed(sharedServer)
  // The token has been verified, and READY stands still where it reads what its server looks like.
  const held = await cluster.sql.reserve()
  await held`BEGIN`
  await held`LOCK TABLE channel_overrides`
  const late = lin.listen(worker!).then(
    () => "READY",
    (error: { code?: number }) => error.code,
  )
  await until(
    "READY stands still",
    async () =>
      (
        await cluster.sql`SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
      ).length > 0,
  )
  await lin.on(worker!).logout()
  await held`COMMIT`
  held.release()
  expect(await late).toBe(4004)
})

test("writes in flight when their token is revoked are answered or refused, and none is accepted afterwards", async ({
  shared,
}) => {
  const { channel, ada, lin } = await shared.seed(sharedServer)
  const sends = Array.from({ length: 20 }, (_, i) =>
    lin
      .on(i % 2 ? shared.east : shared.west)
      .createMessage({ channel_id: channel.id, content: `racing ${i}` })
      .then(message => message.content),
  )
  await lin.on(shared.west).logout()
  const outcomes = await Promise.allSettled(sends)
  for (const outcome of outcomes)
    if (outcome.status === "rejected")
      expect(await refusal(Promise.reject(outcome.reason as Error))).toBe("revoked_token")
  const accepted = outcomes.flatMap(outcome => (outcome.status === "fulfilled" ? [outcome.value] : []))
  const stored = await ada.on(shared.east).listMessages({ channel_id: channel.id })
  expect(new Set(stored.map(message => message.content))).toEqual(new Set(accepted))
})

test("each wrong way to present a token is told apart", async ({ shared }) => {
  const ada = await shared.person("ada")
  const [session, secret] = ada.token.split(".") as [string, string]
  const ask = async (authorization?: string) => {
    const headers = authorization === undefined ? {} : { authorization }
    return (await send(shared.east, "/api/v1/users/@me", { headers })).code
  }
  expect(await ask(`Bearer ${ada.token}`)).toBeUndefined()
  expect(await ask(`Bot ${ada.token}`)).toBeUndefined()
  for (const unlike of [
    undefined,
    "",
    ada.token,
    `bearer ${ada.token}`,
    `Bearer  ${ada.token}`,
    `Basic ${ada.token}`,
    "Bearer ",
  ])
    expect(await ask(unlike)).toBe("authentication_required")
  expect(await ask(`Bearer ${ada.token}, Bearer ${ada.token}`)).toBe("multiple_authorization")
  for (const malformed of [
    "abc",
    `${session}.short`,
    `x.${secret}`,
    `99999999999999999999.${secret}`,
    `${session}.${secret}x`,
  ])
    expect(await ask(`Bearer ${malformed}`)).toBe("invalid_token")
  for (const kind of ["bot", "2fa", "email", "webhook"])
    expect(await ask(`Bearer ${kind}.1.${secret}`)).toBe("unknown_token_type")
  const otherSecret = `${secret.startsWith("A") ? "B" : "A"}${secret.slice(1)}`
  for (const revoked of [`${session}.${otherSecret}`, `1.${secret}`])
    expect(await ask(`Bearer ${revoked}`)).toBe("revoked_token")
})

test("an open route ignores an expired token", async ({ shared }) => {
  const ada = await shared.person("ada")
  await ada.on(shared.east).logout()
  expect((await clientAt(shared.west, ada.token).getPasswordRequirements()).docs_enabled).toBe(true)
})
