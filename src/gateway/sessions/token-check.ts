import type { Look } from "../../cluster/kept-sessions.ts"
import { clientFingerprint, isSameClient, type Holder } from "../../cluster/tokens.ts"
import { barTo, type AccountBars } from "../../domain/accounts/accounts.ts"
import { limitedAddress, parseAddress } from "../../domain/core/client-address.ts"
import { secondsAt } from "../../std/clock.ts"
import type { Clock } from "../../std/clock.ts"
import { FrameRefused } from "../protocol/frames.ts"
import type { Connection } from "../state/session.ts"

export interface TokenCheckOptions {
  /** Judges a token that is shown once and not soon again. */
  readonly admit: (token: string) => Promise<Holder | string>
  /** From before a token is judged; see `isStill`. */
  readonly look: () => Look | undefined
  /** Whether the judgement holds now, too, as nothing has changed since. */
  readonly isStill: (access: Holder, look: Look | undefined) => boolean
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

/** Who was let in, and since when nothing may have changed of that. */
export interface LetIn {
  readonly access: Holder
  readonly look: Look | undefined
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
  async letIn(connection: Connection, shown: Shown): Promise<LetIn | undefined> {
    const look = this.#options.look()
    const access = await this.accessOf(connection, shown)
    return access && { access, look }
  }

  /** Whether who was let in would be now. */
  async isStillLetIn({ access, look }: LetIn, connection: Connection, shown: Shown): Promise<boolean> {
    return this.#options.isStill(access, look) || (await this.accessOf(connection, shown)) !== undefined
  }

  async accessOf({ address, userAgent }: Connection, { token, properties }: Shown): Promise<Holder | undefined> {
    const { admit, binding, isFailedTooOften } = this.#options
    const access = await admit(bareToken(token))
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
