import { clientFingerprint, isSameClient, type Holder } from "../../cluster/tokens.ts"
import { barTo, type AccountBars } from "../../domain/accounts/accounts.ts"
import { limitedAddress, parseAddress } from "../../domain/core/client-address.ts"
import { secondsAt } from "../../std/clock.ts"
import type { Clock } from "../../std/clock.ts"
import { FrameRefused } from "../protocol/frames.ts"
import type { Connection } from "../state/session.ts"

export interface TokenCheckOptions {
  readonly verify: (token: string) => Promise<Holder | string>
  /** The same where the token is shown once and not soon again. */
  readonly admit: (token: string) => Promise<Holder | string>
  /** Whether a token is valid only where it signed in. */
  readonly binding: boolean
  /**
   * Counts one more failed token of an address, in the same count as HTTP; true: there were too
   * many already.
   */
  readonly isFailedTooOften: (address: string) => Promise<boolean>
  readonly clock: Pick<Clock, "now">
}

/** What a client shows of itself. */
interface Shown {
  readonly token: string
  readonly properties?: Readonly<Record<string, unknown>> | undefined
}

/** The token without the scheme that clients may write in front of it. */
export const bareToken = (token: string): string => token.replace(/^(Bearer|Bot) /, "")

/** Finds the access session whose token a connection shows. */
export class TokenCheck {
  readonly #options: TokenCheckOptions

  constructor(options: TokenCheckOptions) {
    this.#options = options
  }

  /**
   * @returns undefined for an invalid token. With too many of those from one address the frame is
   * refused, as for an account that may not connect
   */
  accessOf(connection: Connection, shown: Shown): Promise<Holder | undefined> {
    return this.#judged(connection, shown, this.#options.verify)
  }

  /** The same for a session that begins. */
  newcomerOf(connection: Connection, shown: Shown): Promise<Holder | undefined> {
    return this.#judged(connection, shown, this.#options.admit)
  }

  async #judged(
    { address, userAgent }: Connection,
    { token, properties }: Shown,
    judge: TokenCheckOptions["verify"],
  ): Promise<Holder | undefined> {
    const { binding, isFailedTooOften } = this.#options
    const access = await judge(bareToken(token))
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

  /**
   * Refuses the frame if an operator has locked the account, or if the account is to be deleted.
   * For a bot the same holds for its owner's account.
   */
  requireLetIn(access: AccountBars): void {
    const bar = barTo(access, secondsAt(this.#options.clock.now()))
    // Users can choose another name while they are connected.
    if (bar && bar.code !== "username_change_required") throw new FrameRefused("authentication_failed")
  }
}
