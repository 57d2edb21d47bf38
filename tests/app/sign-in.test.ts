/** Ways to sign in on the page, in a real browser: an issuer of the operator's own, and an authenticator. */
import { connect, createServer, type AddressInfo } from "node:net"
import { generateSync } from "otplib"
import type { Page } from "playwright-core"
import { browserForFile } from "../kit/browser.ts"
import { OAuthProviderServer } from "../kit/oauth-provider.ts"
import { expect, testWith } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const test = testWith()
const visitor = browserForFile()

/** Passkeys belong to a name and a port, which a worker knows before it listens: what comes here is handed on. */
async function namedPlace() {
  let target = 0
  const server = createServer(socket => {
    const onward = connect(target, "127.0.0.1")
    for (const one of [socket, onward]) one.on("error", () => {})
    socket.pipe(onward).pipe(socket)
    socket.on("close", () => onward.destroy())
    onward.on("close", () => socket.destroy())
  })
  await new Promise<void>(resolve => server.listen(0, "127.0.0.1", resolve))
  return {
    url: `http://localhost:${(server.address() as AddressInfo).port}`,
    leadTo: (port: number) => (target = port),
    close: () => server.close(),
  }
}

/** The browser has an authenticator that knows its user. @returns whether from now on they touch it when it asks */
async function plugIn(page: Page): Promise<(isTouched: boolean) => Promise<unknown>> {
  const session = await page.context().newCDPSession(page)
  await session.send("WebAuthn.enable")
  const { authenticatorId } = await session.send("WebAuthn.addVirtualAuthenticator", {
    options: {
      protocol: "ctap2",
      transport: "internal",
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true,
    },
  })
  return enabled => session.send("WebAuthn.setAutomaticPresenceSimulation", { authenticatorId, enabled })
}

const button = (page: Page, name: string) => page.getByRole("button", { name, exact: true })

test("somebody comes in through the operator's issuer, adds a passkey and signs in with it; another answers the second factor with theirs", async ({
  shared,
  skip,
}) => {
  const place = await namedPlace()
  const provider = await OAuthProviderServer.start([`${place.url}/app`])
  try {
    const config = {
      PUBLIC_URL: place.url,
      STARLING_OAUTH_REDIRECT_URIS: `${place.url}/app`,
      STARLING_OIDC_ISSUERS: JSON.stringify([provider.asOwnIssuer()]),
    }
    const [worker] = await shared.boot(1, { config })
    place.leadTo(Number(new URL(worker!.url).port))
    const { page } = await visitor(skip)
    const touch = await plugIn(page)
    await page.addInitScript(`{
      const get = navigator.credentials.get.bind(navigator.credentials)
      navigator.credentials.get = options => {
        const asked = get(options)
        if (options.mediation === "conditional") window.suggested = true
        return asked
      }
    }`)

    const security = async () => {
      await page.goto(`${place.url}/app#/settings/security`)
      await page.getByRole("heading", { name: "Passkeys" }).waitFor()
    }
    // The browser suggests passkeys as soon as one may sign in: nobody takes that up until it is meant.
    const signOut = async () => {
      await touch(false)
      await page.evaluate("window.suggested = false")
      await button(page, "Sign out").click()
      await page.getByRole("heading", { name: "Sign in" }).waitFor()
    }
    const add = async (name: string, password?: string) => {
      await button(page, "Add a passkey").click()
      await page.getByLabel("Name of the passkey").fill(name)
      if (password !== undefined) await page.getByLabel("Your password").last().fill(password)
      await button(page, "Add a passkey").click()
      await page.locator("li", { hasText: name }).waitFor()
    }

    // Somebody whose address is not verified there is told so here, and nothing else happens.
    provider.people.set("newcomer", {
      email: "new@acme.example",
      email_verified: false,
      preferred_username: "acme_ada",
    })
    const come = async () => {
      await page.goto(`${place.url}/app`)
      await button(page, "Continue with Acme").click()
      await page.locator("input[name=login]").fill("newcomer")
      await page.locator("input[name=password]").fill("any")
      await page.locator("button[type=submit]").click()
      await page.locator("button[type=submit]").click()
    }
    await come()
    await page.getByText("The provider has not verified your e-mail address").waitFor()
    provider.people.set("newcomer", { email: "new@acme.example", email_verified: true, preferred_username: "acme_ada" })
    await page.context().clearCookies()
    await come()
    await page.getByText("Begin here").waitFor()

    await security()
    await add("Laptop")
    await button(page, "Rename").click()
    await page.getByLabel("Name of the passkey").fill("Old laptop")
    await button(page, "Save").click()
    await page.locator("li", { hasText: "Old laptop" }).waitFor()
    // What the browser suggests at the field for the name signs in without a click here.
    await touch(true)
    await button(page, "Sign out").click()
    await page.getByText("Begin here").waitFor()
    await security()
    await page.locator("li", { hasText: "last used" }).waitFor()

    // A request that waits for a touch is not told of a later one: the suggestion waits already, so that the one that the
    // click makes is touched.
    const signInByButton = async () => {
      await until("passkeys are suggested", () => page.evaluate<boolean>("window.suggested"))
      await touch(true)
      await button(page, "Sign in with a passkey").click()
    }
    await signOut()
    expect(await page.getByLabel("Name or e-mail address").getAttribute("autocomplete")).toBe("username webauthn")
    await signInByButton()
    await page.getByText("Begin here").waitFor()
    await security()
    await button(page, "Remove").click()
    await button(page, "Remove").last().click()
    await page.locator("li", { hasText: "Old laptop" }).waitFor({ state: "detached" })
    await signOut()
    await signInByButton()
    await page.getByText("This passkey cannot sign in").first().waitFor()
    await touch(false)

    const lin = await shared.person("lin")
    const { password } = lin
    const enter = async () => {
      await page.getByLabel("Name or e-mail address").fill(lin.username)
      await page.getByLabel("Password", { exact: true }).fill(password)
      await button(page, "Sign in").click()
    }
    await enter()
    await page.getByText("Begin here").waitFor()
    await touch(true)
    await security()
    await add("Phone", password)
    const rest = lin.on(shared.east)
    const { secret } = await rest.enableTwoFactor({ password })
    await rest.confirmTwoFactor({ code: generateSync({ secret }) })
    await signOut()
    await enter()
    await page.getByRole("heading", { name: "Second factor" }).waitFor()
    // Nothing is suggested there.
    await touch(true)
    await button(page, "Use a passkey").click()
    await page.getByText("Begin here").waitFor()
    expect((await rest.listPasskeys()).map(({ name, last_used_at }) => [name, last_used_at !== null])).toEqual([
      ["Phone", true],
    ])
  } finally {
    place.close()
    await provider.close()
  }
})
