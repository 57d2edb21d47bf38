/** A name or address as a URL has it, with a port or without. */
const shape = /^(?:[a-z0-9](?:[a-z0-9._-]{0,251}[a-z0-9])?|\[[0-9a-f:.]{2,45}\])(?::\d{1,5})?$/i

/** What a request says of the URL by which its client reached it; the forwarded ones count of a trusted proxy only. */
export interface RequestedHost {
  readonly host: string
  readonly forwardedHost: string
  readonly forwardedProto: string
}

/**
 * The WebSocket origin of this server as a client knows it, from what it asked for; undefined where that is no host. What
 * a client writes there is answered to nobody else.
 */
export function requestedOrigin(
  { host, forwardedHost, forwardedProto }: RequestedHost,
  isBehindProxy: boolean,
): string | undefined {
  // Each proxy adds to the list what it was asked for: the first saw the client.
  const first = (list: string) => list.split(",", 1)[0]!.trim()
  const name = (isBehindProxy && first(forwardedHost)) || host
  const isSecure = isBehindProxy && /^(?:https|wss)$/i.test(first(forwardedProto))
  const origin = `${isSecure ? "wss" : "ws"}://${name}`
  return shape.test(name) && URL.canParse(origin) ? origin.toLowerCase() : undefined
}
