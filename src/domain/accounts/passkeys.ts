import type { Snowflake } from "../../contract/core/fields.ts"

/** A passkey of a user, as it is kept. Times are Unix seconds. */
export interface PasskeyState {
  readonly id: Snowflake
  /** What authenticators call it, in base64url. */
  readonly credential_id: string
  /** COSE, in base64url. */
  readonly public_key: string
  /** The last that its authenticator said; 0: it does not count. */
  readonly counter: number
  /** How its authenticator is reached, as a hint to browsers. */
  readonly transports: readonly string[]
  readonly name: string
  /** Kept in an account of its maker. */
  readonly synced: boolean
  readonly created_at: number
  readonly last_used_at: number | null
}

/** What a signature says beside that it is right. */
export interface PasskeyUse {
  readonly credential_id: string
  readonly counter: number
  readonly synced: boolean
}

/**
 * Whether the counter can be that of the authenticator that was seen last. One that stays or goes
 * back is a copy, or the original after a copy was used.
 */
export const isCopied = (known: Pick<PasskeyState, "counter">, { counter }: Pick<PasskeyUse, "counter">): boolean =>
  (known.counter > 0 || counter > 0) && counter <= known.counter

/** Where passkeys of this server belong, and the addresses of pages and apps that may ask for them. */
export interface PasskeyPlace {
  readonly rpId: string
  readonly origins: readonly string[]
}

/**
 * The place of a server with this address. Undefined: browsers have no passkeys for an address
 * without a name, nor for one without encryption that is not their own machine.
 */
export function passkeyPlace(
  publicUrl: string,
  { passkey_rp_id, passkey_origins }: { passkey_rp_id?: string | undefined; passkey_origins: readonly string[] },
): PasskeyPlace | undefined {
  const { hostname, protocol, origin } = new URL(publicUrl)
  const isNamed = !/^[\d.]+$/.test(hostname) && !hostname.startsWith("[")
  if (!isNamed || (protocol !== "https:" && hostname !== "localhost")) return undefined
  const rpId = passkey_rp_id ?? hostname
  if (hostname !== rpId && !hostname.endsWith(`.${rpId}`)) return undefined
  return { rpId, origins: [origin, ...passkey_origins] }
}
