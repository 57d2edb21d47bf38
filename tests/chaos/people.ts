import { createClient, type Client } from "../../client/rest.ts"
import { routes, type Routes } from "../../src/contract/contract.ts"

/** Somebody with an account. */
export interface Person {
  name: string
  id: string
  email: string
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

/** Somebody whose access to one server changes in the course of the run. */
export interface Watched {
  subject: Person
  owner: Person
  community: Community
  /** A role of theirs alone, which an override of the channel may concern. */
  crew: string
  /** A role that hides the channel from those who have it. */
  muted: string
}

export interface Population {
  /** Members of every server for the whole run. */
  writers: Person[]
  /** They come and go: each joins and leaves one server. */
  wanderers: Person[]
  /** They sign in, listen for a while and sign out; members of the first server. */
  guest: Person
  /** They listen, and lose and get back access. */
  subjects: Person[]
  watched: Watched[]
  /** Members of the first server whose presence is looked at, and who looks. */
  ghosts: Person[]
  leavers: Person[]
  observer: Person
  communities: Community[]
}

export const password = "Correct-Horse-9"

/** Makes everybody and everything, before the first fault. */
export async function populate(
  url: string,
  run: string,
  size: { writers: number; wanderers: number; subjects: number; communities: number },
): Promise<Population> {
  const at = (token?: string): Client<Routes> =>
    createClient({ baseUrl: url, ...(token !== undefined && { token }), retry: true }, routes)
  const person = async (name: string): Promise<Person> => {
    const username = `${name}_${run}`
    const email = `${username}@example.com`
    const { token, user } = await at().register({ username, email, password })
    return { name, id: user!.id, email, password, login: `${name}#0`, token: token! }
  }
  const people = async (name: string, count: number) => {
    const list: Person[] = []
    for (let n = 0; n < count; n++) list.push(await person(`${name}${n}`))
    return list
  }
  const writers = await people("writer", size.writers)
  const wanderers = await people("wanderer", size.wanderers)
  const guest = await person("guest")
  const subjects = await people("subject", size.subjects)
  const ghosts = await people("ghost", 2)
  const leavers = await people("leaver", 2)
  const observer = await person("observer")
  const communities: Community[] = []
  const watched: Watched[] = []
  for (let n = 0; n < size.communities; n++) {
    const owner = writers[n % writers.length]!
    const server = await at(owner.token).createServer({ name: `Server ${n}` })
    const [channel] = await at(owner.token).listChannels({ server_id: server.id })
    const { code } = await at(owner.token).createInvite({ channel_id: channel!.id, max_age: 0 })
    for (const member of [...writers, guest])
      if (member !== owner) await at(member.token).joinByInvite({ invite_code: code })
    const community: Community = { server: server.id, channel: channel!.id, invite: code }
    communities.push(community)
    if (n === 0)
      for (const member of [...ghosts, ...leavers, observer]) await at(member.token).joinByInvite({ invite_code: code })
    const subject = subjects[n]
    if (subject) watched.push(await watch(at(owner.token), at(subject.token), { subject, owner, community }))
  }
  return { writers, wanderers, guest, subjects, watched, ghosts, leavers, observer, communities }
}

async function watch(
  owner: Client<Routes>,
  subject: Client<Routes>,
  who: Omit<Watched, "crew" | "muted">,
): Promise<Watched> {
  const { server: server_id, channel: channel_id, invite: invite_code } = who.community
  await subject.joinByInvite({ invite_code })
  const { id: crew } = await owner.createRole({ server_id, name: "Crew" })
  const { id: muted } = await owner.createRole({ server_id, name: "Muted" })
  await owner.setOverride({ channel_id, target_id: muted, type: "role", allow: [], deny: ["channels.view"] })
  return { ...who, crew, muted }
}
