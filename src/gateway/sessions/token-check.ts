import { clientFingerprint, isSameClient, type AccessSession } from "../../cluster/tokens.ts"
import { barTo } from "../../domain/accounts/accounts.ts"
import { limitedAddress, parseAddress } from "../../domain/core/client-address.ts"
import { secondsAt } from "../../std/clock.ts"
import type { Clock } from "../../std/clock.ts"
import { FrameRefused } from "../protocol/frames.ts"
import type { Connection } from "../state/session.ts"

export interface TokenCheckOptions {
  readonly verify: (token: string) => Promise<AccessSession | string>
  /** Whether a token is good only where it signed in. */
  readonly binding: boolean
  /** Counts one more failed token of an address, with those of the REST door; true: there were too many already. */
  readonly isFailedTooOften: (address: string) => Promise<boolean>
  readonly clock: Pick<Clock, "now">
}

/** What a client shows of itself. */
interface Shown {
  readonly token: string
  readonly properties?: Readonly<Record<string, unknown>> | undefined
}

/** Without what clients may write in front of it. */
export const bareToken = (token: string): string => token.replace(/^(Bearer|Bot) /, "")

/** Whose token it is that a connection shows. */
export class TokenCheck {
  readonly #options: TokenCheckOptions

  constructor(options: TokenCheckOptions) {
    this.#options = options
  }

  /**
   * @returns undefined for a token that is nobody's; too many of those from one address refuse the frame, as does an account
   * that is kept out
   */
  async accessOf({ address, userAgent }: Connection, { token, properties }: Shown): Promise<AccessSession | undefined> {
    const { verify, binding, isFailedTooOften } = this.#options
    const access = await verify(bareToken(token))
    const said = properties?.["browser"] ?? properties?.["$browser"]
    if (
      typeof access !== "string" &&
      (!binding || isSameClient(access, clientFingerprint(address, typeof said === "string" ? said : userAgent)))
    ) {
      this.requireLetIn(access)
      return access
    }
    const parsed = parseAddress(address)
    if (await isFailedTooOften(parsed ? limitedAddress(parsed) : address)) throw new FrameRefused("rate_limited")
    return undefined
  }

  /** Refuses the frame where an operator has locked the account, or it is to be deleted; or the owner's, of a bot. */
  requireLetIn(access: AccessSession): void {
    const bar = barTo(access, secondsAt(this.#options.clock.now()))
    // Another name can be chosen while one is connected.
    if (bar && bar.code !== "username_change_required") throw new FrameRefused("authentication_failed")
  }
}
