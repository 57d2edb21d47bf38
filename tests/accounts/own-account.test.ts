/**
 * `GET /users/@me` is answered with what each worker knows of a session: it must be what the last
 * answered change has made it.
 */
import { generateSync } from "otplib"
import { userActor, type UserCommands } from "../../src/actors/user.ts"
import type { Asked } from "../../src/runtime/actor.ts"
import { newTokenSecret, tokenText } from "../../src/cluster/one-time-tokens.ts"
import type { PrivateUser } from "../../src/contract/accounts/users.ts"
import { refusal } from "../kit/conformance.ts"
import { clientAt } from "../kit/person.ts"
import { expect, test, type SharedCluster } from "../kit/test.ts"

const rounds = 6
const nameOf = async ({ sql }: SharedCluster, id: string) =>
  (await sql<{ username: string }[]>`SELECT username FROM users WHERE id = ${id}`)[0]!.username
const codeOf = (secret: string) => generateSync({ secret, epoch: Math.floor(Date.now() / 1000) })

/**
 * Somebody whose sessions both workers know, and what the other one says of them after each answer.
 */
async function watched(shared: SharedCluster) {
  const person = await shared.person("watched")
  const reply = await clientAt(shared.west).login(person)
  const [here, there] = [person.on(shared.east), clientAt(shared.west, reply.token!)]
  const look = () => Promise.all([there.getMe(), here.getMe(), person.on(shared.west).getMe()])
  await look()
  return {
    person,
    here,
    there,
    command: <K extends keyof UserCommands>(command: Asked<UserCommands, K>) =>
      shared.east.node.ask(userActor, person.id, command),
    /** Some looks are under way while it changes; none of them may leave behind what was before. */
    async shows(change: () => Promise<unknown>, shown: Partial<PrivateUser>) {
      const meanwhile = [1, 2, 3].map(look)
      await change()
      for (const seen of await look()) expect(seen).toMatchObject(shown)
      await Promise.all(meanwhile)
      for (const seen of await look()) expect(seen).toMatchObject(shown)
    },
  }
}

test("a change of name, address and password is seen on another worker at once", async ({ shared }) => {
  const { person, here, shows } = await watched(shared)
  const address = `${shared.newName("moved")}@example.com`
  for (let round = 0; round < rounds; round++) {
    const username = shared.newName("Renamed")
    await shows(() => here.editMe({ username }), { username })
    // Only so many other addresses may be left in a day.
    const email = round % 2 === 0 ? address : address.toUpperCase()
    await shows(() => here.editMe({ email, current_password: person.password }), { username, email })
  }
  const password = "Better-Horse-10"
  await here.editMe({ password, current_password: person.password })
  expect((await here.getMe()).id).toBe(person.id)
  expect(await refusal(person.on(shared.west).editMe({ password, current_password: person.password }))).toBe(
    "incorrect_current_password",
  )
})

test("a second factor, on and off", async ({ shared }) => {
  const { person, here, there, shows } = await watched(shared)
  const { password } = person
  for (let round = 0; round < rounds; round++) {
    const { secret, backup_codes } = await here.enableTwoFactor({ password })
    await shows(() => there.confirmTwoFactor({ code: codeOf(secret) }), { totp_enabled: true })
    await shows(() => here.disableTwoFactor({ password, code: backup_codes[0]! }), { totp_enabled: false })
  }
})

test("badges, and the tier behind them", async ({ shared }) => {
  const { person, here, there, shows } = await watched(shared)
  const chief = await shared.person("chief")
  await shared.sql`UPDATE users SET permissions = '{administrator}' WHERE id = ${chief.id}`
  const boss = chief.on(shared.east)
  const user_id = person.id
  for (let round = 0; round < rounds; round++) {
    await shows(() => boss.addBadge({ user_id, badge: "staff" }), { badges: ["staff"] })
    await shows(() => boss.setTier({ user_id, tier: round % 2 === 0 ? "premium" : "standard" }), { badges: ["staff"] })
    expect((await there.getMyFeatures()).tier).toBe((await here.getMyFeatures()).tier)
    await shows(() => boss.removeBadge({ user_id, badge: "staff" }), { badges: [] })
  }
})

test("an address that is verified by mail", async ({ shared }) => {
  const { person, shows, command } = await watched(shared)
  const email = `${shared.newName("Moved")}@example.com`
  // As where addresses have to be verified.
  const [row] = await shared.sql<{ password_hash: string }[]>`SELECT password_hash FROM users WHERE id = ${person.id}`
  const { password_hash } = row!
  const shown = { proof: { password_hash }, factor: null }
  await shows(() => command({ type: "editAccount", email, shown, session_id: "0", verification: true }), {
    email,
    email_verified: false,
  })
  const { secret, token_hash } = newTokenSecret()
  const expires_at = Math.floor(Date.now() / 1000) + 600
  const { token_id } = await command({ type: "startMailedToken", kind: "verify_email", token_hash, email, expires_at })
  const token = tokenText("verify_email", token_id!, secret)
  await shows(() => clientAt(shared.east).verifyEmail({ token }), { email, email_verified: true })
})

test("a name that has to be changed, a deletion that is taken back, a lock that is lifted", async ({ shared }) => {
  const { person, here, there, shows, command } = await watched(shared)
  const active = { deletion_status: "active", deletion_at: null } as const
  const until = Math.floor(Date.now() / 1000) + 1000
  for (let round = 0; round < rounds; round++) {
    await command({ type: "forceRename", reason: null })
    expect(await refusal(there.listServers())).toBe("username_change_required")
    const username = shared.newName(round % 2 === 0 ? "Renamed" : "otherwise")
    await shows(() => here.editMe({ username }), { username, ...active })
    await there.listServers()
  }
  await here.deleteAccount({ password: person.password })
  for (const rest of [here, there]) expect(await refusal(rest.getMe())).toBe("revoked_token")
  await command({ type: "cancelDeletion" })
  const { token } = await clientAt(shared.east).login({
    password: person.password,
    username: await nameOf(shared, person.id),
  })
  for (const place of [shared.east, shared.west]) expect(await clientAt(place, token!).getMe()).toMatchObject(active)
  await command({ type: "lockAccount", until, reason: null })
  for (const place of [shared.east, shared.west])
    expect(await refusal(clientAt(place, token!).getMe())).toBe("revoked_token")
  await command({ type: "unlockAccount" })
  const again = await clientAt(shared.east).login({
    password: person.password,
    username: await nameOf(shared, person.id),
  })
  expect(await clientAt(shared.west, again.token!).getMe()).toMatchObject(active)
})
