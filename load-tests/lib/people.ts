/** Who posts and listens: people who are registered for it or whose tokens are given, in servers of the test's own. */
import { must } from "./target.ts"

export interface People {
  /** Of this run: what other runs have left is told apart by it. */
  readonly run: string
  readonly tokens: readonly string[]
  readonly servers: readonly string[]
  /** One in each server. A person is in the server whose place is theirs, modulo the number of servers. */
  readonly channels: readonly string[]
}

/** Tokens in a file: one in a line, or a JSON array. k6 reads files only before the test begins. */
const given = __ENV["TOKENS"] ? tokensOf(open(__ENV["TOKENS"])) : []

function tokensOf(text: string): string[] {
  const tokens = text.trim().startsWith("[") ? (JSON.parse(text) as string[]) : text.split(/\s+/).filter(Boolean)
  if (tokens.length === 0) throw new Error("there is no token in TOKENS")
  return tokens
}

/** A password hash takes the server some 50 ms of a core. */
const maxConcurrent = 8

export async function gather(wanted: { users: number; servers: number }): Promise<People> {
  const run = Date.now().toString(36)
  const tokens = given.length > 0 ? given : await registered(run, wanted.users)
  const serverCount = Math.min(wanted.servers, tokens.length)
  const places = await inTurns([...tokens.keys()].slice(0, serverCount), async owner => {
    const token = tokens[owner]!
    const { id } = await must<{ id: string }>("POST", "/servers", {
      name: "server",
      token,
      body: { name: `load ${run}` },
    })
    const [channel] = await must<{ id: string }[]>("GET", `/servers/${id}/channels`, { name: "channels", token })
    const { code } = await must<{ code: string }>("POST", `/channels/${channel!.id}/invites`, {
      name: "invite",
      token,
      body: { max_age: 0, max_uses: 0 },
    })
    return { server: id, channel: channel!.id, code }
  })
  await inTurns([...tokens.keys()].slice(serverCount), person =>
    must("POST", `/channels/invites/${places[person % serverCount]!.code}`, {
      name: "join",
      token: tokens[person],
      body: {},
    }),
  )
  return { run, tokens, servers: places.map(({ server }) => server), channels: places.map(({ channel }) => channel) }
}

/** The accounts stay: nobody is deleted by somebody else's test. */
export async function disperse({ tokens, servers }: People): Promise<void> {
  await inTurns([...servers.keys()], i =>
    must("DELETE", `/servers/${servers[i]!}`, { name: "delete server", token: tokens[i] }),
  )
}

function registered(run: string, count: number): Promise<string[]> {
  return inTurns([...Array.from({ length: count }).keys()], async i => {
    const username = `load_${run}_${i}`
    const body = { username, email: `${username}@example.com`, password: `Load-7-${run}-${i}` }
    const { token } = await must<{ token: string | null }>("POST", "/auth/register", { name: "register", body })
    if (token === null) throw new Error("this server registers nobody without more ado: give TOKENS")
    return token
  })
}

/** Results in the order of the items, some at a time. */
async function inTurns<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  let next = 0
  const turns = Array.from({ length: Math.min(maxConcurrent, items.length) }, async () => {
    for (let i = next++; i < items.length; i = next++) results[i] = await work(items[i]!)
  })
  await Promise.all(turns)
  return results
}

/** Who writes the n-th message or request, and to which channel: channels by turns, and their members by turns. */
export function turnOf({ tokens, channels }: People, n: number): { token: string; place: number; channel: string } {
  const place = n % channels.length
  const members = Math.ceil((tokens.length - place) / channels.length)
  const member = Math.floor(n / channels.length) % members
  return { token: tokens[place + member * channels.length]!, place, channel: channels[place]! }
}
