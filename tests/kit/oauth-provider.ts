import { generateKeyPairSync, sign, type KeyObject } from "node:crypto"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import type Provider from "oidc-provider"
import type { ClientMetadata, Configuration } from "oidc-provider"
import { oauthAsking, oauthProviders } from "../../src/domain/accounts/oauth.ts"

/** What the provider knows of somebody, as its claims. */
export interface ProviderPerson {
  email?: string
  email_verified?: boolean
  name?: string
  preferred_username?: string
  nickname?: string
  [claim: string]: unknown
}

/** What comes back with a person. */
export interface CameBack {
  readonly code: string
  readonly state: string
  readonly iss: string
}

/** What it is registered as where it is an issuer of the operator's own. */
export const ownIssuer = "acme"

const secret = "a-secret-of-the-server-at-the-provider"

type Context = Parameters<Parameters<Provider["use"]>[0]>[0]

/**
 * A real OpenID provider on this machine, at which this server is registered four times: with it as Google, as Microsoft, as
 * GitLab, and, without OpenID, as GitHub, for which it has a user API.
 */
export class OAuthProviderServer {
  readonly issuer: string
  readonly people = new Map<string, ProviderPerson>()
  /** Paths that were asked for by the server: not by a person. */
  readonly asked: string[] = []
  /** Changes an answer to the server before it goes out, or keeps it. */
  meddle: ((ctx: Context) => void | Promise<void>) | undefined
  readonly #close: () => Promise<void>
  #key!: { readonly id: string; readonly privateKey: KeyObject }
  /** Begins anew with another key, as after a change of keys; what it knows it keeps. */
  changeKeys!: () => void

  private constructor(issuer: string, close: () => Promise<void>) {
    this.issuer = issuer
    this.#close = close
  }

  static async start(redirectUris: readonly string[]): Promise<OAuthProviderServer> {
    quieten()
    const { default: Provider } = await import("oidc-provider")
    const server = createServer()
    await new Promise<void>(resolve => server.listen(0, "127.0.0.1", resolve))
    const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const self = new OAuthProviderServer(issuer, async () => {
      server.closeAllConnections()
      await new Promise(resolve => server.close(resolve))
    })

    let keys = 0
    self.changeKeys = () => {
      self.#key = {
        id: `key-${++keys}`,
        privateKey: generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey,
      }
      const provider = new Provider(issuer, self.#configuration(redirectUris))
      provider.use(async (ctx, next) => {
        // It has no page on which to choose among accounts: nobody has more than one here.
        if (ctx.query["prompt"] === "select_account") ctx.query = { ...ctx.query, prompt: undefined }
        const isOurs = !/^\/(?:auth|interaction)/.test(ctx.path)
        if (isOurs) self.asked.push(`${ctx.method} ${ctx.path}`)
        if (ctx.path.startsWith("/api/")) {
          const token = await provider.AccessToken.find(ctx.get("authorization").replace(/^Bearer /, ""))
          self.#answerAsGithub(ctx, token?.accountId)
        } else await next()
        if (isOurs) await self.meddle?.(ctx)
      })
      answer = provider.callback()
    }
    let answer!: ReturnType<Provider["callback"]>
    self.changeKeys()
    server.on("request", (request, response) => void answer(request, response))
    return self
  }

  #configuration(redirectUris: readonly string[]): Configuration {
    const { id: kid, privateKey } = this.#key
    const scopes = new Set(oauthProviders.flatMap(name => oauthAsking[name].scope.split(" ")))
    return {
      clients: [...oauthProviders, ownIssuer].map((name): ClientMetadata => ({
        client_id: name,
        client_secret: secret,
        redirect_uris: [...redirectUris],
        // Where a person comes back to an app or to this machine.
        application_type: "native",
        token_endpoint_auth_method: "client_secret_post",
      })),
      jwks: { keys: [{ ...privateKey.export({ format: "jwk" }), kid, use: "sig", alg: "RS256" }] },
      cookies: { keys: ["cookies-of-the-provider"] },
      scopes: [...scopes],
      claims: {
        openid: ["sub", "tid", "xms_edov", "groups", "_claim_names"],
        email: ["email", "email_verified"],
        profile: ["name", "preferred_username", "nickname"],
      },
      conformIdTokenClaims: false,
      pkce: { required: () => true },
      findAccount: (ctx, sub) => {
        const person = this.people.get(sub)
        if (!person) return undefined
        return {
          accountId: sub,
          // These leave what somebody is called to the user endpoint.
          claims: use => ({
            sub,
            ...(use === "id_token" && ["gitlab", ownIssuer].includes(ctx.oidc.client!.clientId) ? {} : person),
          }),
        }
      },
    }
  }

  #answerAsGithub(ctx: Context, sub: string | undefined): void {
    const person = sub === undefined ? undefined : this.people.get(sub)
    if (!person) {
      ctx.status = 401
      ctx.body = { message: "Bad credentials" }
    } else if (ctx.path === "/api/user")
      ctx.body = { id: Number(sub), login: person.preferred_username, name: person.name }
    else
      ctx.body = [
        { email: "another@example.org", primary: false, verified: true },
        { email: person.email, primary: true, verified: person.email_verified ?? false },
      ]
  }

  /** What the operator writes down to use it. */
  get config(): Record<string, string> {
    return {
      ...Object.fromEntries(
        oauthProviders.flatMap(name => [
          [`STARLING_OAUTH_${name.toUpperCase()}_CLIENT_ID`, name],
          [`STARLING_OAUTH_${name.toUpperCase()}_CLIENT_SECRET`, secret],
        ]),
      ),
      STARLING_OAUTH_GOOGLE_ISSUER: this.issuer,
      STARLING_OAUTH_MICROSOFT_ISSUER: this.issuer,
      STARLING_OAUTH_GITLAB_ISSUER: this.issuer,
      STARLING_OAUTH_GITHUB_AUTHORIZE_URL: `${this.issuer}/auth`,
      STARLING_OAUTH_GITHUB_TOKEN_URL: `${this.issuer}/token`,
      STARLING_OAUTH_GITHUB_API_URL: `${this.issuer}/api`,
    }
  }

  /** The same token, signed by it, with other claims. */
  signed(token: string, change: (claims: Record<string, unknown>) => object): string {
    const claims = JSON.parse(Buffer.from(token.split(".")[1]!, "base64url").toString()) as Record<string, unknown>
    const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url")
    const text = `${encode({ alg: "RS256", kid: this.#key.id })}.${encode({ ...claims, ...change(claims) })}`
    return `${text}.${sign("sha256", Buffer.from(text), this.#key.privateKey).toString("base64url")}`
  }

  /** What the operator writes down to use it as an issuer of their own. */
  asOwnIssuer(more: object = {}): object {
    return {
      id: ownIssuer,
      name: "Acme",
      issuer: this.issuer,
      client_id: ownIssuer,
      client_secret: secret,
      ...more,
    }
  }

  /** Somebody follows the link, signs in and agrees, as with a browser that has never been there. */
  async visit(url: string, sub: string): Promise<CameBack> {
    const cookies = new Map<string, string>()
    const open = async (address: string, form?: Record<string, string>) => {
      const response = await fetch(address, {
        redirect: "manual",
        headers: { cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join("; ") },
        ...(form && { method: "POST", body: new URLSearchParams(form) }),
      })
      for (const line of response.headers.getSetCookie()) {
        const [, name, value] = /^([^=]+)=([^;]*)/.exec(line)!
        cookies.set(name!, value!)
      }
      return { text: await response.text(), location: response.headers.get("location") }
    }

    let at = url
    for (let pages = 0; pages < 12; pages++) {
      const { text, location } = await open(at)
      const next = location ?? (await this.#answerForm(text, open, sub))
      at = new URL(next, at).href
      const back = new URL(at)
      if (at.startsWith(this.issuer)) continue
      const [code, state, iss] = ["code", "state", "iss"].map(name => back.searchParams.get(name))
      if (!code || !state || !iss) throw new Error(`sent back without a code: ${at}`)
      return { code, state, iss }
    }
    throw new Error(`never sent back from ${at}`)
  }

  async #answerForm(
    page: string,
    open: (address: string, form: Record<string, string>) => Promise<{ location: string | null }>,
    sub: string,
  ): Promise<string> {
    const action = /<form[^>]* action="([^"]+)"/.exec(page)?.[1]
    const prompt = /name="prompt" value="(\w+)"/.exec(page)?.[1]
    if (action === undefined || prompt === undefined) throw new Error(`no form in: ${page}`)
    const { location } = await open(action, { prompt, login: sub, password: "any" })
    if (location === null) throw new Error("the form leads nowhere")
    return location
  }

  close(): Promise<void> {
    return this.#close()
  }
}

let isQuiet = false
/** It tells its operator that it keeps everything in memory: that is the purpose here. */
function quieten(): void {
  if (isQuiet) return
  isQuiet = true
  for (const level of ["info", "warn"] as const) {
    const say = console[level].bind(console)
    console[level] = (...words: unknown[]) => {
      if (!String(words[0]).startsWith("oidc-provider ")) say(...words)
    }
  }
}
