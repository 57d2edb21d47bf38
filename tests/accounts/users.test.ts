import { refusal } from "../kit/conformance.ts"
import { readyOf } from "../kit/person.ts"
import { expect, test } from "../kit/test.ts"

test("one sees all of oneself and of others what everybody may", async ({ shared }) => {
  const [ada, lin] = await Promise.all([shared.person("ada"), shared.person("lin")])
  const me = await ada.on(shared.east).getMe()
  expect(me).toMatchObject({ id: ada.id, username: ada.username, email: ada.email })
  const { id, username, avatar_url, created_at, badges, bot } = me
  for (const place of [shared.east, shared.west])
    expect(await lin.on(place).getUser({ user_id: ada.id })).toEqual({
      id,
      username,
      avatar_url,
      created_at,
      badges,
      bot,
    })
})

test("an id that is none and one that nobody has are told apart", async ({ shared }) => {
  const ada = await shared.person("ada")
  const { getUser } = ada.on(shared.east)
  for (const user_id of ["me", "-1", "1.5", "0x10", "١٢", "9223372036854775808", "9".repeat(200)])
    expect(await refusal(getUser({ user_id }))).toBe("invalid_user_id")
  for (const user_id of ["0", "1", "9223372036854775807"])
    expect(await refusal(getUser({ user_id }))).toBe("user_not_found")
})

test("a user is found by their whole name in any case, and by nothing else", async ({ shared }) => {
  const [ada, lin] = await Promise.all([shared.person("Ada_Love"), shared.person("lin")])
  const { findUser, getUser } = lin.on(shared.west)
  const shown = await getUser({ user_id: ada.id })
  for (const username of [ada.username, ada.username.toUpperCase(), ada.username.toLowerCase()])
    expect(await findUser({ username })).toEqual(shown)
  expect(Object.keys(shown).toSorted()).toEqual(["avatar_url", "badges", "bot", "created_at", "id", "username"])
  for (const username of ["Ada", `${ada.username} `, `${ada.username}%`, "A%", "%", "_", ada.email, ada.id, "'"])
    expect(await refusal(findUser({ username }))).toBe("user_not_found")
  for (const asked of [{}, { username: "" }]) expect(await refusal(findUser(asked))).toBe("username_required")
  expect(await refusal(findUser({ username: "a".repeat(257) }))).toBe("validation_failed")
  expect(await refusal(findUser({ username: "\u0000" }))).toBe("unsafe_text")
})

test("no more than five badges of a user are shown", async ({ shared }) => {
  const [ada, lin] = await Promise.all([shared.person("ada"), shared.person("lin")])
  const badges = ["one", "two", "three", "four", "five", "six"]
  await shared.sql`UPDATE users SET badges = ${badges} WHERE id = ${ada.id}`
  const shown = badges.slice(0, 5)
  const rest = lin.on(shared.east)
  expect((await rest.getUser({ user_id: ada.id })).badges).toEqual(shown)
  expect((await rest.findUser({ username: ada.username })).badges).toEqual(shown)
  expect((await ada.on(shared.east).getMe()).badges).toEqual(shown)
  expect((await readyOf(ada, shared.west)).user.badges).toEqual(shown)
  const own = ada.on(shared.west)
  const { id: server_id } = await own.createServer({ name: "Badges" })
  const [channel] = await own.listChannels({ server_id })
  const message = await own.createMessage({ channel_id: channel!.id, content: "look at me" })
  expect(message.author_badges).toEqual(shown)
  const [listed] = await own.listMessages({ channel_id: channel!.id })
  expect(listed!.author_badges).toEqual(shown)
})
