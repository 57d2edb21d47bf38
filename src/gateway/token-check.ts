import { isAtOrigin, type AccessSession } from "../cluster/tokens.ts"
import type { FailedTokens } from "./failed-tokens.ts"
import type { Connection } from "./session.ts"

export interface TokenCheckOptions {
  readonly verify: (token: string) => Promise<AccessSession | string>
  /** Whether a token is good only where it signed in. */
  readonly binding: boolean
  readonly failed: FailedTokens
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

  /** @returns undefined for a token that is nobody's; too many of those from one address refuse the frame */
  async accessOf({ address, userAgent }: Connection, { token, properties }: Shown): Promise<AccessSession | undefined> {
    const { verify, binding, failed } = this.#options
    const access = await verify(bareToken(token))
    const said = properties?.["browser"] ?? properties?.["$browser"]
    if (
      typeof access !== "string" &&
      (!binding || isAtOrigin(access, address, typeof said === "string" ? said : userAgent))
    )
      return access
    failed.note(address)
    return undefined
  }
}
