import type { HttpResponse } from "uWebSockets.js"
import {
  addressOf,
  clientAddress,
  formatAddress,
  limitedAddress,
  trustedProxies,
  type Address,
} from "../../domain/core/client-address.ts"
import { setNewest } from "../../std/bounded-map.ts"

/** Who is at the other end. */
export interface Client {
  readonly address: Address
  /** As limits count it. */
  readonly limited: string
  readonly text: string
}

/** Clients that are remembered; of one that is forgotten the texts are made again. */
const maxClients = 10_000
/** A longer list of hops is read each time. */
const maxForwardedCharacters = 128

const newClient = (address: Address): Client => ({
  address,
  limited: limitedAddress(address),
  text: formatAddress(address),
})

/**
 * The clients of a server, with what is made of their addresses. uWebSockets.js does not say which
 * connection a request came on, so each request asks for the address; what follows from it is kept.
 */
export class Clients {
  readonly #proxies: ReturnType<typeof trustedProxies>
  readonly #peers = new Map<number | string, Client>()
  /** Behind proxies: by the proxy and what it says. */
  readonly #forwarded = new Map<string, Client>()

  /** @param proxies addresses and CIDR ranges whose `X-Forwarded-For` is believed */
  constructor(proxies: readonly string[]) {
    this.#proxies = trustedProxies(proxies)
  }

  /** Of a request that is not answered and whose client is still there. */
  of(res: Pick<HttpResponse, "getRemoteAddress">, forwardedFor: string | undefined): Client {
    const peer = this.#peerOf(new Uint8Array(res.getRemoteAddress()))
    return forwardedFor === undefined || this.#proxies.length === 0 ? peer : this.#behind(peer, forwardedFor)
  }

  /** Who is at the other end of the socket, whatever headers say. */
  peer(res: Pick<HttpResponse, "getRemoteAddress">): Address {
    return addressOf(new Uint8Array(res.getRemoteAddress()))
  }

  #peerOf(bytes: Uint8Array): Client {
    const key = keyOf(bytes)
    if (key === undefined) return newClient(addressOf(bytes))
    const known = this.#peers.get(key)
    if (known) return known
    const client = newClient(addressOf(bytes))
    setNewest(this.#peers, key, client, maxClients)
    return client
  }

  #behind(peer: Client, forwardedFor: string): Client {
    const key = `${peer.text} ${forwardedFor}`
    const known = this.#forwarded.get(key)
    if (known) return known
    const address = clientAddress(peer.address, forwardedFor, this.#proxies)
    const client = address === peer.address ? peer : newClient(address)
    if (forwardedFor.length <= maxForwardedCharacters) setNewest(this.#forwarded, key, client, maxClients)
    return client
  }
}

/** Undefined: the socket says nothing of its peer, who is gone. */
function keyOf(bytes: Uint8Array): number | string | undefined {
  if (bytes.length === 4) return (bytes[0]! << 24) | (bytes[1]! << 16) | (bytes[2]! << 8) | bytes[3]!
  if (bytes.length !== 16) return undefined
  return String.fromCharCode(
    bytes[0]! * 256 + bytes[1]!,
    bytes[2]! * 256 + bytes[3]!,
    bytes[4]! * 256 + bytes[5]!,
    bytes[6]! * 256 + bytes[7]!,
    bytes[8]! * 256 + bytes[9]!,
    bytes[10]! * 256 + bytes[11]!,
    bytes[12]! * 256 + bytes[13]!,
    bytes[14]! * 256 + bytes[15]!,
  )
}
