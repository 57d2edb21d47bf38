import { createClient, type Client } from "../../client/rest.ts"
import { routes, type Routes } from "../../src/contract/contract.ts"

/** Somebody with an account. */
export interface Person {
  name: string
  id: string
  password: string
  /** A name for the first session, and its token. */
  login: string
  token: string
}

export interface Community {
  server: string
  channel: string
  invite: string
}

export interface Population {
  /** Members of every server for the whole run. */
  writers: Person[]
  /** They come and go: each joins and leaves one server. */
  wanderers: Person[]
  /** They sign in, listen for a while and sign out; members of the first server. */
  guest: Person
  communities: Community[]
}

export const password = "Correct-Horse-9"

/** Makes everybody and everything, before the first fault. */
export async function populate(
  url: string,
  run: string,
  size: { writers: number; wanderers: number; communities: number },
): Promise<Population> {
  const at = (token?: string): Client<Routes> =>
    createClient({ baseUrl: url, ...(token !== undefined && { token }), retry: true }, routes)
  const person = async (name: string): Promise<Person> => {
    const username = `${name}_${run}`
    const { token, user } = await at().register({ username, email: `${username}@example.com`, password })
    return { name, id: user!.id, password, login: `${name}#0`, token: token! }
  }
  const people = async (name: string, count: number) => {
    const list: Person[] = []
    for (let n = 0; n < count; n++) list.push(await person(`${name}${n}`))
    return list
  }
  const writers = await people("writer", size.writers)
  const wanderers = await people("wanderer", size.wanderers)
  const guest = await person("guest")
  const communities: Community[] = []
  for (let n = 0; n < size.communities; n++) {
    const owner = writers[n % writers.length]!
    const server = await at(owner.token).createServer({ name: `Server ${n}` })
    const [channel] = await at(owner.token).listChannels({ server_id: server.id })
    const { code } = await at(owner.token).createInvite({ channel_id: channel!.id, max_age: 0 })
    for (const member of [...writers, guest])
      if (member !== owner) await at(member.token).joinByInvite({ invite_code: code })
    communities.push({ server: server.id, channel: channel!.id, invite: code })
  }
  return { writers, wanderers, guest, communities }
}
