import { expect, test } from "vitest"
import { configuredProviders, isRedirectUri, profileOfClaims, profileOfGithub, usernameFor } from "./oauth.ts"

const iss = "https://provider.example"

test("a provider is configured with both halves of what it gave", () => {
  expect(configuredProviders({})).toEqual([])
  expect(
    configuredProviders({
      oauth_gitlab_client_id: "a",
      oauth_gitlab_client_secret: "b",
      oauth_github_client_id: "a",
      oauth_google_client_id: "a",
      oauth_google_client_secret: "b",
    }),
  ).toEqual(["google", "gitlab"])
})

test("people are sent back over HTTPS, to this machine or to an app, and nowhere else", () => {
  const good = [
    "https://chat.example/",
    "https://chat.example/signed-in",
    "http://127.0.0.1:4711/signed-in",
    "http://localhost/",
    "http://[::1]:1/",
    "com.example.app:/signed-in",
  ]
  const bad = [
    "",
    "/signed-in",
    "https://chat.example",
    "https://Chat.example/",
    "https://chat.example/../x",
    "https://chat.example/?a=b",
    "https://chat.example/#",
    "https://ada@chat.example/",
    "http://chat.example/",
    "http://127.0.0.1.example/",
    "javascript:alert(1)",
    "data:text/html,x",
    "app:/signed-in",
  ]
  expect(good.filter(uri => !isRedirectUri(uri))).toEqual([])
  expect(bad.filter(isRedirectUri)).toEqual([])
})

test("an address counts only where the provider vouches for it", () => {
  const email = "ada@example.org"
  const of = (provider: "google" | "microsoft" | "gitlab", claims: object) =>
    profileOfClaims(provider, { iss, sub: "7", email, ...claims })?.email
  expect(of("google", { email_verified: true })).toBe(email)
  for (const email_verified of [false, "true", 1, undefined, null]) expect(of("google", { email_verified })).toBeNull()
  expect(of("gitlab", { xms_edov: true })).toBeNull()
  expect(of("microsoft", {})).toBeNull()
  for (const xms_edov of [true, 1, "1", "true"]) expect(of("microsoft", { xms_edov })).toBe(email)
  for (const xms_edov of [false, 0, "0", "false"]) expect(of("microsoft", { xms_edov })).toBeNull()
  expect(profileOfClaims("google", { iss, email })).toBeUndefined()
  expect(profileOfClaims("google", { iss, sub: "" })).toBeUndefined()
  expect(profileOfClaims("google", { sub: "7", email })).toBeUndefined()
})

test("no part of an address becomes a name", () => {
  const claims = { iss, sub: "7", preferred_username: "ada@example.org", name: "Ada", email: "ada@example.org" }
  expect(profileOfClaims("microsoft", claims)!.names).toEqual(["Ada"])
})

test("a subject of Microsoft is one within its tenant", () => {
  expect(profileOfClaims("microsoft", { iss, sub: "7", tid: "acme" })).toMatchObject({ issuer: iss, subject: "acme.7" })
  expect(profileOfClaims("google", { iss, sub: "7", tid: "acme" })!.subject).toBe("7")
})

test("of GitHub's addresses the primary one counts, if it is verified", () => {
  const of = (emails: unknown) => profileOfGithub(iss, { id: 7, login: "ada" }, emails)!.email
  const [other, primary] = [
    { email: "other@example.org", primary: false, verified: true },
    { email: "ada@example.org", primary: true, verified: true },
  ]
  expect(of([other, primary])).toBe("ada@example.org")
  for (const emails of [null, {}, [], [null], [other], [other, { ...primary, verified: false }]])
    expect(of(emails)).toBeNull()
  for (const user of [null, {}, { id: "7" }, { id: 1.5 }, { id: 2 ** 53 }])
    expect(profileOfGithub(iss, user, [])).toBeUndefined()
  expect(profileOfGithub(iss, { id: 7 }, [])).toEqual({ issuer: iss, subject: "7", email: null, names: [] })
})

test("a name of elsewhere becomes one that is allowed here", () => {
  const named = (names: string[], isNeeded = false, refused: string[] = []) =>
    usernameFor(names, { min: 3, max: 32 }, name => !refused.includes(name.toLowerCase()), { token: "0a1b", isNeeded })
  expect(named(["Ada_Lovelace"])).toBe("Ada_Lovelace")
  expect(named(["Ada Lovelace"])).toBe("Ada_Lovelace")
  expect(named(["Zoë Ångström"])).toBe("Zoe_Angstrom")
  expect(named(["日本", "al", "ada"])).toBe("ada")
  expect(named(["日本"])).toBe("user0a1b")
  expect(named([])).toBe("user0a1b")
  expect(named(["a".repeat(40)])).toBe("a".repeat(32))
  expect(named(["ada"], true)).toBe("ada0a1b")
  expect(named(["a".repeat(40)], true)).toBe(`${"a".repeat(28)}0a1b`)
  expect(named(["Admin"], false, ["admin"])).toBe("Admin0a1b")
  expect(named(["Admin", "ada"], false, ["admin"])).toBe("ada")
  expect(named(["<script>alert(1)</script>"])).toBe("script_alert_1_script")
})
