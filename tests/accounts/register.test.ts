import { getMe, type PrivateUser } from "../../src/contract/accounts/users.ts"
import { refusal } from "../kit/conformance.ts"
import { clientAt } from "../kit/person.ts"
import { expect, test } from "../kit/test.ts"

const password = "Correct-Horse-9"

test("P4: a user who registers on one worker is known on the other at once", async ({ shared }) => {
  const username = shared.newName("Ada")
  const email = `${username}@Example.com`
  const { token, user, ...rest } = await clientAt(shared.east).register({ username, email, password })
  expect(rest).toEqual({ status: "success", challenge_token: null, methods: null, expires_in: null })
  expect(user).toMatchObject({ username, email, badges: [], email_verified: true, deletion_status: "active" })
  expect(user!.avatar_url).toBe(`/api/v1/avatars/users/${user!.id}`)
  expect(Math.abs(user!.created_at - Date.now() / 1000)).toBeLessThan(60)
  expect(token).toMatch(/^\d+\.[A-Za-z0-9_-]{43}$/)
  const me: PrivateUser = await clientAt(shared.west, token!).call(getMe)
  expect(me).toEqual(user)
})

test("what the rules forbid is refused with its reason", async ({ shared }) => {
  const { register } = clientAt(shared.east)
  const username = shared.newName("rules")
  const good = { username, email: `${username}@example.com`, password }
  const refused = (facts: object) => refusal(register({ ...good, ...facts }))

  for (const username of ["no-dash", "no space", "ümlaut", "a.b.c", "日本語"])
    expect(await refused({ username })).toBe("invalid_username")
  for (const username of ["admin", "Root", "NULL", "undefined"])
    expect(await refused({ username })).toBe("reserved_username")
  for (const username of ["ab", "a".repeat(33), ""]) expect(await refused({ username })).toBe("validation_failed")
  for (const email of ["", "nobody", "a@b", "a@@b.example", "a b@c.example", `a@${"b".repeat(300)}.example`])
    expect(await refused({ email })).toBe("invalid_email")
  for (const password of ["Short-1", "all-lower-case-1", "ALL-UPPER-CASE-1", "No-Digits-Here", "NoSpecial12345", ""])
    expect(await refused({ password })).toBe("weak_password")
  expect(await refused({ password: `Aa1-${"x".repeat(125)}` })).toBe("weak_password")
  for (const dob of ["01.02.1990", "1990-02-30", "2990-01-01", ""])
    expect(await refused({ dob })).toBe("invalid_birth_date")
  expect((await register({ ...good, age: null, age_verified: null, dob: null })).status).toBe("success")
})

test("a password of exactly the least and the most characters is taken, counted in code points", async ({ shared }) => {
  for (const password of ["Aa1-😀😀😀😀😀😀😀😀", `Aa1-${"x".repeat(124)}`]) {
    const username = shared.newName("edge")
    await clientAt(shared.east).register({ username, email: `${username}@example.com`, password })
    expect((await clientAt(shared.west).login({ username, password })).user).toMatchObject({ username })
  }
  const username = shared.newName("edge")
  const short = { username, email: `${username}@example.com`, password: "Aa1-😀😀😀😀😀😀😀" }
  expect(await refusal(clientAt(shared.east).register(short))).toBe("weak_password")
})

test("names and addresses are taken whatever the case of their letters", async ({ shared }) => {
  const ada = await shared.person("Ada")
  const { register } = clientAt(shared.west)
  const other = shared.newName("other")
  const same = { username: other, email: ada.email.toUpperCase(), password }
  expect(await refusal(register(same))).toBe("user_exists")
  expect(await refusal(register({ ...same, username: ada.username.toLowerCase(), email: "new@example.com" }))).toBe(
    "user_exists",
  )
})

test("exactly one of parallel registrations of one name on two workers wins", async ({ shared }) => {
  const username = shared.newName("race")
  const outcomes = await Promise.allSettled(
    Array.from({ length: 6 }, (_, i) =>
      clientAt(i % 2 ? shared.east : shared.west).register({
        username: i % 3 ? username : username.toUpperCase(),
        email: `${username}${i}@example.com`,
        password,
      }),
    ),
  )
  const won = outcomes.filter(outcome => outcome.status === "fulfilled")
  expect(won).toHaveLength(1)
  for (const outcome of outcomes)
    if (outcome.status === "rejected")
      expect(await refusal(Promise.reject(outcome.reason as Error))).toBe("user_exists")
  const rows = await shared.sql`SELECT username FROM users WHERE lower(username) = ${username.toLowerCase()}`
  expect(rows).toEqual([{ username: won[0]!.value.user!.username }])
})

test("an operator's patterns keep names away, and their list of domains addresses", async ({ cluster }) => {
  const [place] = await cluster.boot(1, {
    config: {
      STARLING_BLOCKED_USERNAMES: "st[a4]rl[i1]ng, ^x+y$",
      STARLING_EMAIL_ALLOWED_DOMAINS: "school.example, @Edu",
    },
  })
  const { register } = clientAt(place!)
  const at = (username: string, email = `${username}@school.example`) => register({ username, email, password })
  for (const username of ["Starling", "my_ST4RL1NG_fan", "xxxY"])
    expect(await refusal(at(username))).toBe("blocked_username")
  for (const domain of ["school.example.org", "myschool.example", "edu.example", "notedu"])
    expect(await refusal(at("someone", `someone@a.${domain}`))).toBe("email_domain_not_allowed")
  for (const [username, email] of [
    ["xxyz", "xxyz@school.example"],
    ["deeper", "deeper@a.b.SCHOOL.example"],
    ["student", "student@uni.edu"],
  ] as const)
    expect((await at(username, email)).status).toBe("success")
})

test("where addresses have to be verified the account is made, and signing in waits for that", async ({ cluster }) => {
  const [place] = await cluster.boot(1, { config: { STARLING_EMAIL_VERIFICATION_REQUIRED: "true" } })
  const username = cluster.newName("ada")
  const email = `${username}@example.com`
  const { register, login } = clientAt(place!)
  expect(await refusal(register({ username, email, password }))).toBe("registered_unverified")
  const [row] = await cluster.sql`SELECT id, email_verified, email_confirmed FROM users WHERE username = ${username}`
  expect(row).toMatchObject({ email_verified: false, email_confirmed: false })
  expect(await cluster.sql`SELECT FROM sessions`).toHaveLength(0)
  expect(await cluster.sql`SELECT kind FROM mails WHERE user_id = ${row!["id"] as string}`).toEqual([
    { kind: "verify_email" },
  ])
  // Only a user who has the password learns of it.
  expect(await refusal(login({ username, password: "Wrong-Horse-99" }))).toBe("invalid_credentials")
  expect(await refusal(login({ username, password }))).toBe("email_not_verified")
  expect(await refusal(register({ username, email, password }))).toBe("user_exists")
})

test("what a registration is not asked for it does not decide", async ({ shared }) => {
  const username = shared.newName("sly")
  const wishes = {
    id: "1",
    badges: ["staff"],
    tier: "staff",
    permissions: ["administrator"],
    bot: true,
    email_confirmed: true,
    totp_enabled: true,
    password_hash: "x",
    session: { sessionsPerUser: 1000 },
  }
  const { user } = await clientAt(shared.east).register({
    ...wishes,
    username,
    email: `${username}@example.com`,
    password,
  })
  const [row] = await shared.sql`SELECT * FROM users WHERE username = ${username}`
  expect(row).toMatchObject({
    id: user!.id,
    badges: [],
    tier: "standard",
    permissions: [],
    bot: false,
    email_confirmed: false,
    totp_enabled: false,
  })
  expect(row!["password_hash"]).toMatch(/^\$argon2id\$/)
})

test("the age gate asks for an age or a date of birth, as it is configured", async ({ cluster }) => {
  const gate = { STARLING_AGE_GATE_ENABLED: "true", STARLING_MINIMUM_AGE: "16" }
  const [byAge] = await cluster.boot(1, { config: { ...gate, STARLING_ALPHA_REGISTRATION: "true" } })
  const [byDate] = await cluster.boot(1, { config: { ...gate, STARLING_AGE_VERIFICATION_TYPE: "dob" } })
  const at = (place: { url: string }, facts: object) => {
    const username = cluster.newName("young")
    return clientAt(place).register({ username, email: `${username}@example.com`, password, ...facts })
  }
  const year = new Date().getUTCFullYear()

  expect(await clientAt(byAge!).getPasswordRequirements()).toEqual({
    min_length: 12,
    max_length: 128,
    require_uppercase: true,
    require_lowercase: true,
    require_digit: true,
    require_special: true,
    age_gate_enabled: true,
    age_verification_type: "boolean",
    minimum_age: 16,
    docs_enabled: true,
  })
  expect(await refusal(at(byAge!, {}))).toBe("age_required")
  expect(await refusal(at(byAge!, { age: 15 }))).toBe("too_young")
  const { user } = await at(byAge!, { age: 16 })
  expect(user).toMatchObject({ age_verified: true, badges: ["alpha_tester"] })
  expect((await at(byAge!, { age_verified: true })).user).toMatchObject({ age_verified: true })

  expect(await refusal(at(byDate!, { age: 40, age_verified: true }))).toBe("birth_date_required")
  expect(await refusal(at(byDate!, { dob: `${year - 15}-01-01` }))).toBe("too_young")
  expect((await at(byDate!, { dob: `${year - 17}-12-31` })).user).toMatchObject({ age_verified: true, badges: [] })
})
