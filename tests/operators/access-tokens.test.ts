/** API access tokens as operators issue, watch, rotate and revoke them in their area. */
import { maxAccessTokens, maxScopes } from "../../src/domain/service/access-tokens.ts"
import { refusal } from "../kit/conformance.ts"
import { send, type Sending } from "../kit/exchange.ts"
import { attentive, operatorOf } from "../kit/operator.ts"
import { newOperator } from "../kit/area.ts"
import { clientAt, type Endpoint } from "../kit/person.ts"
import { expect, testWith, type SharedCluster } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const test = testWith({ config: { TRUSTED_PROXIES: "127.0.0.1" }, topology: attentive })
const me = "/api/v1/users/@me"
const seconds = () => Math.floor(Date.now() / 1000)
const withToken = (secret: string, from?: string): Sending => ({
  headers: {
    "user-agent": "the app",
    "x-api-access-token": secret,
    ...(from !== undefined && { "x-forwarded-for": from }),
  },
})
const everywhere = (shared: SharedCluster, sending: Sending, code: string, path = me) =>
  until(`everywhere ${code}`, async () =>
    (await Promise.all([shared.east, shared.west].map(async place => (await send(place, path, sending)).code))).every(
      each => each === code,
    ),
  )
/** What is answered is so on every worker: nobody waits for it. */
const holdsEverywhere = async (shared: SharedCluster, sending: Sending, code: string) => {
  const answers = await Promise.all([shared.east, shared.west].map(place => send(place, me, sending)))
  expect(answers.map(answer => answer.code)).toEqual([code, code])
}
const letIn = "authentication_required"
const operatorAt = async (shared: SharedCluster, place: Endpoint) => {
  const { id, token } = await newOperator(shared)
  return { id, on: clientAt(place, token) }
}

test("a token is issued, changed, rotated and revoked; its secret is told once, and the gate follows everywhere", async ({
  shared,
}) => {
  const { id: issuer, on: operator } = await operatorAt(shared, shared.east)
  expect(await operator.listAccessTokens()).toEqual([])
  const { token, access_token } = await operator.createAccessToken({ name: "The app", description: "For phones" })
  expect(token).toMatch(/^[A-Za-z0-9_-]{32}$/)
  expect(access_token).toEqual({
    id: expect.stringMatching(/^\d+$/) as string,
    name: "The app",
    description: "For phones",
    created_by: issuer,
    created_at: expect.any(Number) as number,
    first_used_at: null,
    last_used_at: null,
    last_used_ip_address: null,
    last_used_user_agent: null,
    last_used_path: null,
    expires_at: null,
    scope_mode: "none",
    use_count_total: 0,
    distinct_ip_count: 0,
    denied_count_total: 0,
    revoked: false,
    revoked_at: null,
    revoked_by: null,
  })
  const { id: token_id } = access_token
  await holdsEverywhere(shared, {}, "access_token_required")
  await holdsEverywhere(shared, withToken(token), letIn)
  // The area itself asks for none.
  expect(await operator.listAccessTokens()).toHaveLength(1)
  const trail = await shared.sql<{ all: string }[]>`SELECT row_to_json(operator_trail)::text AS all FROM operator_trail`
  expect(trail.map(({ all }) => all).join()).not.toContain(token)

  const later = seconds() + 3600
  expect(
    await operator.editAccessToken({ token_id, name: "The new app", expires_at: later * 1000, scope_mode: "monitor" }),
  ).toMatchObject({ name: "The new app", description: "For phones", expires_at: later, scope_mode: "monitor" })
  expect(await operator.editAccessToken({ token_id })).toMatchObject({ name: "The new app", expires_at: later })
  expect(await operator.editAccessToken({ token_id, clear_expiry: true, expires_at: later })).toMatchObject({
    expires_at: null,
    scope_mode: "monitor",
  })
  await operator.addAccessTokenScope({ token_id, scope_type: "cidr", value: "198.51.100.7/24" })
  await operator.editAccessToken({ token_id, expires_at: later, scope_mode: "enforce" })
  await holdsEverywhere(shared, withToken(token, "198.51.101.9"), "invalid_access_token")

  // Two at once: one of them replaces it, the other finds nothing to replace.
  const rotations = await Promise.allSettled([1, 2].map(() => operator.rotateAccessToken({ token_id })))
  const [done] = rotations.flatMap(each => (each.status === "fulfilled" ? [each.value] : []))
  expect(rotations.filter(({ status }) => status === "fulfilled")).toHaveLength(1)
  expect(done!.access_token).toMatchObject({
    name: "The new app",
    description: "For phones",
    expires_at: later,
    scope_mode: "enforce",
    created_by: issuer,
    use_count_total: 0,
  })
  expect(done!.access_token.id).not.toBe(token_id)
  expect(done!.token).not.toBe(token)
  await holdsEverywhere(shared, withToken(token, "198.51.100.9"), "invalid_access_token")
  await holdsEverywhere(shared, withToken(done!.token, "198.51.100.9"), letIn)
  await holdsEverywhere(shared, withToken(done!.token, "198.51.101.9"), "invalid_access_token")
  const { scopes } = await operator.getAccessToken({ token_id: done!.access_token.id })
  expect(scopes).toMatchObject([{ scope_type: "cidr", value: "198.51.100.0/24" }])

  expect(await operator.listAccessTokens()).toMatchObject([
    { id: done!.access_token.id, revoked: false },
    { id: token_id, revoked: true, revoked_by: issuer },
  ])
  expect(await operator.listAccessTokens({ include_revoked: "false" })).toHaveLength(1)
  const revocations = await Promise.allSettled(
    [1, 2].map(() => operator.revokeAccessToken({ token_id: done!.access_token.id })),
  )
  expect(revocations.filter(({ status }) => status === "fulfilled")).toHaveLength(1)
  await holdsEverywhere(shared, {}, letIn)
})

test("a token of one's own is taken once; wrong values and unknown ids are told apart", async ({ shared }) => {
  const { on: operator } = await operatorAt(shared, shared.west)
  const own = "chosen.by-the_operator~0123456789"
  const made = await Promise.allSettled([1, 2, 3].map(() => operator.createAccessToken({ token: own })))
  expect(made.filter(({ status }) => status === "fulfilled")).toHaveLength(1)
  const [value] = made.flatMap(each => (each.status === "fulfilled" ? [each.value] : []))
  expect(value!.token).toBe(own)
  const token_id = value!.access_token.id
  expect(await refusal(operator.createAccessToken({ token: own }))).toBe("access_token_exists")
  // Also of the token itself, which stays as it was.
  expect(await refusal(operator.rotateAccessToken({ token_id, token: own }))).toBe("access_token_exists")
  expect((await operator.getAccessToken({ token_id })).access_token.revoked).toBe(false)

  for (const wrong of [
    { token: `${"x".repeat(32)},` },
    { scope_mode: "shout" },
    { expires_at: seconds() - 5 },
    { expires_at: (seconds() - 5) * 1000 },
  ])
    expect([wrong, await refusal(operator.createAccessToken(wrong))]).toEqual([wrong, "invalid_access_token_value"])
  for (const wrong of [
    { token: "x".repeat(31) },
    { token: "x".repeat(129) },
    { name: "x".repeat(101) },
    { description: "x".repeat(501) },
  ])
    expect([wrong, await refusal(operator.createAccessToken(wrong))]).toEqual([wrong, "validation_failed"])
  for (const wrong of [{ scope_mode: "shout" }, { expires_at: seconds() - 5 }])
    expect([wrong, await refusal(operator.editAccessToken({ token_id, ...wrong }))]).toEqual([
      wrong,
      "invalid_access_token_value",
    ])
  expect(await refusal(operator.rotateAccessToken({ token_id, token: " ".repeat(40) }))).toBe(
    "invalid_access_token_value",
  )

  const add = (scope_type: string, value: string) => operator.addAccessTokenScope({ token_id, scope_type, value })
  const scope = await add("ip", "::ffff:192.0.2.7")
  expect(scope).toMatchObject({ scope_type: "ip", value: "192.0.2.7" })
  for (const again of await Promise.all([1, 2, 3].map(() => add("ip", "192.0.2.7")))) expect(again.id).toBe(scope.id)
  const several = await Promise.all([1, 2, 3].map(() => add("cidr", "2001:DB8::5/32")))
  expect(new Set(several.map(({ id }) => id)).size).toBe(1)
  for (const [type, value] of [
    ["ip", "192.0.2.0/24"],
    ["ip", "nowhere"],
    ["cidr", "192.0.2.0/33"],
    ["host", "192.0.2.7"],
  ] as const)
    expect([type, value, await refusal(add(type, value))]).toEqual([type, value, "invalid_access_token_value"])
  expect(await refusal(add("ip", ""))).toBe("validation_failed")
  const remove = (scope_id: string) => operator.removeAccessTokenScope({ token_id, scope_id })
  expect(await remove(scope.id)).toEqual({ success: true })
  expect(await refusal(remove(scope.id))).toBe("access_token_scope_not_found")
  const [row] = await shared.sql<{ scopes: string[] }[]>`SELECT scopes FROM access_tokens WHERE id = ${token_id}`
  expect(row!.scopes).toEqual(["2001:db8::/32"])
  await shared.sql`
    INSERT INTO access_token_scopes (token_id, scope_type, value, created_at)
    SELECT ${token_id}, 'ip', 'planted ' || n, 0 FROM generate_series(2, ${maxScopes}) AS n`
  expect(await refusal(add("ip", "192.0.2.9"))).toBe("access_token_scope_limit")

  const unknown = { token_id: "999999" }
  for (const [what, asked] of [
    ["get", () => operator.getAccessToken(unknown)],
    ["edit", () => operator.editAccessToken({ ...unknown, name: "x" })],
    ["rotate", () => operator.rotateAccessToken(unknown)],
    ["revoke", () => operator.revokeAccessToken(unknown)],
    ["add", () => operator.addAccessTokenScope({ ...unknown, scope_type: "ip", value: "192.0.2.7" })],
    ["remove", () => operator.removeAccessTokenScope({ ...unknown, scope_id: "1" })],
  ] as const)
    expect([what, await refusal(asked())]).toEqual([what, "access_token_not_found"])
  expect(await refusal(operator.getAccessToken({ token_id: "x" }))).toBe("validation_failed")
  expect(await operator.revokeAccessToken({ token_id })).toEqual({ success: true })
  // What is revoked is changed no more, and issued never again.
  for (const asked of [
    () => operator.revokeAccessToken({ token_id }),
    () => operator.rotateAccessToken({ token_id }),
    () => operator.editAccessToken({ token_id, name: "x" }),
    () => add("ip", "192.0.2.8"),
  ])
    expect(await refusal(asked())).toBe("access_token_not_found")
  expect(await refusal(operator.createAccessToken({ token: own }))).toBe("access_token_exists")

  await shared.sql`
    INSERT INTO access_tokens (name, token_hash, created_at) SELECT 'planted', 'hash ' || n, 0 FROM generate_series(0, ${maxAccessTokens}) AS n`
  expect(await refusal(operator.createAccessToken({}))).toBe("access_token_limit")
  // Beyond the bound, as by two operators at once, it is in force as well.
  expect(await operatorOf(shared).accessTokens.list()).toHaveLength(maxAccessTokens + 1)
  await shared.sql`WITH gone AS (DELETE FROM access_tokens WHERE name = 'planted') UPDATE service SET access_version = access_version + 1`
  await everywhere(shared, {}, letIn)
})

test("its use is counted on every worker: from where, for what, and what was refused", async ({ shared }) => {
  const { on: operator } = await operatorAt(shared, shared.east)
  const { token, access_token } = await operator.createAccessToken({ name: "watched", scope_mode: "enforce" })
  const { id: token_id } = access_token
  const [inside, outside] = ["198.51.100.1", "203.0.113.1"]
  await everywhere(shared, withToken(token, inside), "invalid_access_token")
  await operator.addAccessTokenScope({ token_id, scope_type: "cidr", value: "198.51.100.0/24" })
  await everywhere(shared, withToken(token, inside), letIn)
  await shared.sql`SELECT pg_sleep(1.5)`
  const before = (await operator.getAccessToken({ token_id })).access_token

  const ask = (path: string, sending: Sending) =>
    Promise.all([shared.east, shared.west].map(place => send(place, path, sending)))
  for (let i = 0; i < 3; i++) await ask(me, withToken(token, inside))
  await ask("/api/v1/channels/1/messages", withToken(token, inside))
  await ask("/api/v1/nothing/to/see", withToken(token, inside))
  await ask("/api/v1/users/search?username=secret", withToken(token, outside))
  // Not gated, unknown and absent tokens: no use of this one.
  await ask("/api/v1/status", withToken(token, inside))
  await ask(me, withToken("x".repeat(32), inside))
  await ask(me, {})
  await until("it is written down", async () => {
    const { access_token: now } = await operator.getAccessToken({ token_id })
    return (
      now.use_count_total === before.use_count_total + 10 && now.denied_count_total === before.denied_count_total + 2
    )
  })
  const detail = await operator.getAccessToken({ token_id, recent_limit: "12" })
  expect(detail.access_token).toMatchObject({
    last_used_ip_address: inside,
    last_used_user_agent: "the app",
    first_used_at: expect.any(Number) as number,
    distinct_ip_count: 2,
  })
  expect(detail.total_events).toBe(detail.access_token.use_count_total + detail.denied_count_total)
  expect(detail.recent_events).toHaveLength(12)
  expect(detail.recent_events.filter(({ ip_address }) => ip_address === outside)).toMatchObject(
    [1, 2].map(() => ({
      allowed: false,
      scope_match: false,
      reject_reason: "ip_scope_denied",
      method: "GET",
      path: "/api/v1/users/search",
    })),
  )
  expect(detail.top_ips).toMatchObject([
    { ip_address: inside },
    { ip_address: outside, request_count: 2, denied_count: 2 },
  ])
  expect(detail.top_paths.map(({ method, path }) => [method, path])).toEqual(
    expect.arrayContaining([
      ["GET", "/api/v1/users/@me"],
      ["GET", "/api/v1/channels/{channel_id}/messages"],
      [null, null],
    ]),
  )
  expect((await operator.getAccessToken({ token_id, recent_limit: "1" })).recent_events).toHaveLength(1)
  // One that is over is refused, and that it was used is known.
  await shared.sql`WITH over AS (UPDATE access_tokens SET expires_at = 5 WHERE id = ${token_id}) UPDATE service SET access_version = access_version + 1`
  await everywhere(shared, withToken(token, inside), "invalid_access_token")
  await until("it is written down", async () =>
    (await operator.getAccessToken({ token_id })).recent_events.some(
      ({ reject_reason }) => reject_reason === "expired",
    ),
  )
  await operator.revokeAccessToken({ token_id })
  await everywhere(shared, {}, letIn)
})
