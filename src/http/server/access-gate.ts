import { hash } from "node:crypto"
import type { AccessTokens } from "../../domain/service/access-tokens.ts"
import { formatAddress, type Address } from "../../domain/core/client-address.ts"
import type { Log } from "../../observability/log.ts"

export interface AccessGateOptions {
  readonly accessTokens: () => AccessTokens
  /** Unix milliseconds. */
  readonly clock: () => number
  readonly log: Pick<Log, "info">
}

/** One token from one place is written down once in so many milliseconds. */
const quiet = 60_000
/** Places that are remembered for that; then all are forgotten. */
const maxNoted = 1_000

/**
 * What a request has to bring beside its user's token, where an operator has made API access
 * tokens.
 */
export function createAccessGate({ accessTokens, clock, log }: AccessGateOptions) {
  const noted = new Map<string, number>()

  function noteOutside(token: string, address: Address): void {
    const place = `${token} ${formatAddress(address)}`
    const now = clock()
    if ((noted.get(place) ?? -Infinity) > now - quiet) return
    if (noted.size >= maxNoted) noted.clear()
    noted.set(place, now)
    log.info({ token, address: formatAddress(address) }, "API access token used from outside of its ranges")
  }

  return {
    get isOpen(): boolean {
      return accessTokens().isEmpty
    },

    /**
     * @param presented the header as it came
     * @returns why the request is refused, if it is
     */
    refusalOf(
      presented: string | undefined,
      address: Address,
    ): "access_token_required" | "invalid_access_token" | undefined {
      const digest = presented === undefined ? undefined : hash("sha256", presented, "hex")
      const verdict = accessTokens().judge(digest, address, clock() / 1000)
      if (!verdict.isOpen) return verdict.refusal
      if (verdict.outside !== undefined) noteOutside(verdict.outside, address)
      return undefined
    },
  }
}
