import { refusal } from "./kit/conformance.ts"
import { expect, test } from "./kit/test.ts"

test("one sees all of oneself and of others what everybody may", async ({ shared }) => {
  const [ada, lin] = await Promise.all([shared.person("ada"), shared.person("lin")])
  const me = await ada.on(shared.east).getMe()
  expect(me).toMatchObject({ id: ada.id, username: ada.username, email: ada.email })
  const { id, username, avatar_url, created_at, badges } = me
  for (const place of [shared.east, shared.west])
    expect(await lin.on(place).getUser({ user_id: ada.id })).toEqual({ id, username, avatar_url, created_at, badges })
})

test("an id that is none and one that nobody has are told apart", async ({ shared }) => {
  const ada = await shared.person("ada")
  const { getUser } = ada.on(shared.east)
  for (const user_id of ["me", "-1", "1.5", "0x10", "١٢", "9223372036854775808", "9".repeat(200)])
    expect(await refusal(getUser({ user_id }))).toBe("invalid_user_id")
  for (const user_id of ["0", "1", "9223372036854775807"])
    expect(await refusal(getUser({ user_id }))).toBe("user_not_found")
})
