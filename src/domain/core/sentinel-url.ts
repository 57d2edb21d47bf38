/** What `redis+sentinel://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]…]/NAME[/DATABASE][?sentinel_password=…]` says. */
export interface SentinelPlace {
  readonly sentinels: readonly { readonly host: string; readonly port: number }[]
  /** Of the master, as the sentinels call it. */
  readonly name: string
  readonly database: number
  readonly username: string | undefined
  readonly password: string | undefined
  readonly sentinelPassword: string | undefined
  readonly isEncrypted: boolean
}

const usualPort = 26_379
const shape =
  /^redis(s)?\+sentinel:\/\/(?:([^:@/]*):([^@/]*)@)?([^@/?]+)\/([^/?]+)(?:\/(\d{1,5}))?(?:\?sentinel_password=([^&]*))?$/

export const isSentinelUrl = (url: string): boolean => /^rediss?\+sentinel:/.test(url)

/** Undefined: it is not written like one. */
export function sentinelPlace(url: string): SentinelPlace | undefined {
  const [, tls, username, password, hosts, name, database, sentinelPassword] = shape.exec(url) ?? []
  if (hosts === undefined || name === undefined) return undefined
  const sentinels = hosts.split(",").map(text => {
    const at = `tcp://${text.trim()}`
    return URL.canParse(at) && new URL(at).hostname !== "" ? new URL(at) : undefined
  })
  if (sentinels.includes(undefined)) return undefined
  try {
    const decoded = (text: string | undefined) => (text ? decodeURIComponent(text) : undefined)
    return {
      sentinels: sentinels.map(one => ({
        host: one!.hostname.replace(/^\[|\]$/g, ""),
        port: Number(one!.port || usualPort),
      })),
      name: decodeURIComponent(name),
      database: Number(database ?? 0),
      username: decoded(username),
      password: decoded(password),
      sentinelPassword: decoded(sentinelPassword),
      isEncrypted: tls !== undefined,
    }
  } catch {
    return undefined // an escape that is none
  }
}
