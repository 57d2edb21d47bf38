/** A new address is a way into the account, so a token alone does not change it. */
import { generateSync } from "otplib"
import { hashSecret, newSecret } from "../../src/cluster/tokens.ts"
import { idOf, shardOf } from "../../src/domain/core/snowflake.ts"
import { plantedId } from "../kit/seeds.ts"
import { refusal } from "../kit/conformance.ts"
import { clientAt } from "../kit/person.ts"
import { expect, test, type SharedCluster } from "../kit/test.ts"

const next = "Better-Horse-10"
const codeOf = (secret: string) => generateSync({ secret, epoch: Math.floor(Date.now() / 1000) })
const newAddress = (shared: SharedCluster) => `${shared.newName("moved")}@example.com`

test("ACC4: a new address needs the password; the same address needs nothing", async ({ shared }) => {
  const ada = await shared.person("ada")
  const { editMe, getMe } = ada.on(shared.east)
  const email = newAddress(shared)
  expect(await refusal(editMe({ email }))).toBe("missing_current_password")
  expect(await refusal(editMe({ email, current_password: next }))).toBe("incorrect_current_password")
  // Nothing else of the request happens either.
  expect(await refusal(editMe({ email, username: shared.newName("renamed") }))).toBe("missing_current_password")
  expect(await getMe()).toMatchObject({ username: ada.username, email: ada.email })
  expect((await editMe({ email: ada.email })).email).toBe(ada.email)
  expect((await editMe({ email, current_password: ada.password })).email).toBe(email)
  const moved = { email: newAddress(shared), password: next, current_password: ada.password }
  expect((await editMe(moved)).email).toBe(moved.email)
  expect((await clientAt(shared.west).login({ username: moved.email, password: next })).status).toBe("success")
})

test("ACC4: where a second factor is set up, a new address needs a code, and uses it up", async ({ shared }) => {
  const ada = await shared.person("ada")
  const { editMe, getMe, enableTwoFactor, confirmTwoFactor } = ada.on(shared.east)
  const { password: current_password } = ada
  const { secret, backup_codes } = await enableTwoFactor({ password: ada.password })
  await confirmTwoFactor({ code: codeOf(secret) })
  const email = newAddress(shared)
  expect(await refusal(editMe({ email, current_password }))).toBe("second_factor_code_required")
  expect(await refusal(editMe({ email, current_password, code: "AAAA-AAAA" }))).toBe("wrong_code")
  expect(await refusal(editMe({ email, current_password: next, code: backup_codes[0]! }))).toBe(
    "incorrect_current_password",
  )
  expect((await getMe()).email).toBe(ada.email)
  const code = backup_codes[0]!
  expect((await editMe({ email, current_password, code })).email).toBe(email)
  expect(await refusal(editMe({ email: newAddress(shared), current_password, code }))).toBe("wrong_code")
  // A new password alone needs none.
  expect((await editMe({ password: next, current_password })).email).toBe(email)
})

test("ACC4: without a password, a new address needs a sign-in that is at most ten minutes old", async ({ shared }) => {
  const { sql, east } = shared
  const now = Math.floor(Date.now() / 1000)
  const user = plantedId()
  await sql`
    INSERT INTO users (id, username, email, created_at)
    VALUES (${user}, ${shared.newName("elsewhere")}, ${newAddress(shared)}, ${now})`
  const session = async (seconds: number) => {
    const secret = newSecret()
    const id = idOf(shardOf(user), { ms: Date.now() - seconds * 1000, sequence: seconds })
    await sql`
      INSERT INTO sessions (id, user_id, token_hash, ip_address, user_agent, created_at, expires_at, last_activity)
      VALUES (${id}, ${user}, ${hashSecret(secret)}, '', '', ${now}, ${now + 3600}, ${now})`
    return clientAt(east, `${id}.${secret}`)
  }
  const [old, fresh] = [await session(660), await session(540)]
  const email = newAddress(shared)
  expect(await refusal(old.editMe({ email }))).toBe("fresh_sign_in_required")
  // It does not get a first password in passing.
  expect(await refusal(fresh.editMe({ email, password: next, current_password: "" }))).toBe(
    "incorrect_current_password",
  )
  expect((await fresh.editMe({ email })).email).toBe(email)
})
