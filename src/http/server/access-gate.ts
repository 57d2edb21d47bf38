import { hash } from "node:crypto"
import type { AccessTokens } from "../../domain/service/access-tokens.ts"
import type { PlacedUse } from "../../domain/service/access-uses.ts"
import { secondsAt } from "../../std/clock.ts"
import type { Log } from "../../observability/log.ts"
import type { Exchange } from "./exchange.ts"

export interface AccessGateOptions {
  readonly accessTokens: () => AccessTokens
  /** Each use of a token that there is. */
  readonly noteUse: (use: PlacedUse) => void
  /** Unix milliseconds. */
  readonly clock: () => number
  readonly log: Pick<Log, "info">
}

/** What the gate looks at of a request. */
export type Presented = Pick<Exchange, "accessToken" | "userAgent"> & {
  readonly client: Pick<Exchange["client"], "address" | "text">
}

/** One token from one place is written down once in so many milliseconds. */
const quiet = 60_000
/** Places that are remembered for that; then all are forgotten. */
const maxNoted = 1_000
/** Of a user agent. */
const maxAgentCharacters = 256

/**
 * What a request has to bring beside its user's token, where an operator has made API access
 * tokens.
 */
export function createAccessGate({ accessTokens, noteUse, clock, log }: AccessGateOptions) {
  const noted = new Map<string, number>()

  function noteOutside(token: string, address: string): void {
    const place = `${token} ${address}`
    const now = clock()
    if ((noted.get(place) ?? -Infinity) > now - quiet) return
    if (noted.size >= maxNoted) noted.clear()
    noted.set(place, now)
    log.info({ token, address }, "API access token used from outside of its ranges")
  }

  return {
    get isOpen(): boolean {
      return accessTokens().isEmpty
    },

    /**
     * @param route that the request is for, with the names of its parameters in braces
     * @returns why the request is refused, if it is
     */
    refusalOf(
      { accessToken, userAgent, client }: Presented,
      route: Pick<PlacedUse, "method" | "path">,
    ): "access_token_required" | "invalid_access_token" | undefined {
      const digest = accessToken === undefined ? undefined : hash("sha256", accessToken, "hex")
      const { refusal, use } = accessTokens().judge(digest, client.address, clock() / 1000)
      if (use) {
        noteUse({
          ...use,
          ...route,
          used_at: secondsAt(clock()),
          ip_address: client.text,
          user_agent: userAgent.replace(/[^\x20-\x7e]/g, "?").slice(0, maxAgentCharacters),
        })
        if (use.allowed && use.scope_match === false) noteOutside(use.token, client.text)
      }
      return refusal
    },
  }
}
