/**
 * P12, P13: what takes access away is a barrier in every stream: nothing that comes after its
 * answer reaches whom it excludes.
 */
import { setTimeout as sleep } from "node:timers/promises"
import fc from "fast-check"
import { describe } from "vitest"
import type { ReceivedEvent } from "../../client/gateway.ts"
import type { Permission } from "../../src/contract/core/permissions.ts"
import { gauge, type Cluster, type Worker } from "../kit/cluster.ts"
import { refusal } from "../kit/conformance.ts"
import { runs } from "../kit/effort.ts"
import type { Listener, Person, Endpoint } from "../kit/person.ts"
import { sharedServer } from "../kit/seeds.ts"
import { shardOf } from "../../src/domain/core/snowflake.ts"
import { expect, test, testWith } from "../kit/test.ts"
import { until } from "../kit/until.ts"

interface Scene {
  readonly ada: Person
  readonly lin: Person
  readonly server_id: string
  /** Where the posts are; Lin sees it. */
  readonly channel_id: string
  /** Everybody sees it. */
  readonly open_id: string
  /** A role that Lin has. */
  readonly role_id: string
}

/** Ada's server with Lin in it, who has a role; two channels that both see. */
async function scene(cluster: Cluster, place: Endpoint): Promise<Scene> {
  const { ada, lin, server, channel: open } = await cluster.seed(one => sharedServer(one, place))
  const rest = ada.on(place)
  const { id: channel_id } = await rest.createChannel({ server_id: server.id, name: "watched" })
  const { id: role_id } = await rest.createRole({ server_id: server.id, name: "Crew" })
  await rest.giveRole({ server_id: server.id, member_id: lin.id, role_id })
  return { ada, lin, server_id: server.id, channel_id, open_id: open.id, role_id }
}

const view: Permission[] = ["channels.view"]
const hide = (scene: Scene, place: Endpoint, target_id: string, type: "role" | "member" = "role") =>
  scene.ada.on(place).setOverride({ channel_id: scene.channel_id, target_id, type, allow: [], deny: view })
const show = (scene: Scene, place: Endpoint, target_id: string, type: "role" | "member" = "role") =>
  scene.ada.on(place).setOverride({ channel_id: scene.channel_id, target_id, type, allow: view, deny: [] })
/** Only who has the role sees the channel. */
async function forTheCrew(scene: Scene, place: Endpoint): Promise<void> {
  await show(scene, place, scene.role_id)
  await hide(scene, place, scene.server_id)
}
const everyone = (scene: Scene, place: Endpoint, sees: boolean) =>
  scene.ada.on(place).editRole({
    server_id: scene.server_id,
    role_id: scene.server_id,
    permissions: { "channels.view": sees, "messages.send": true, "messages.read": true },
  })

const handOver = ({ server_id }: Scene, from: Person, to: Person, place: Endpoint) =>
  from.on(place).transferServer({ server_id, user_id: to.id, password: from.password })

interface Revocation {
  readonly name: string
  /** Before the session begins. */
  readonly prepare?: (scene: Scene, place: Endpoint) => Promise<unknown>
  readonly act: (scene: Scene, place: Endpoint) => Promise<unknown>
  /** What the session is told. */
  readonly told: "GUILD_DELETE" | "CHANNEL_DELETE" | undefined
  readonly refused: "access_denied" | "revoked_token"
  /** What undoes it. */
  readonly undo?: (scene: Scene, place: Endpoint) => Promise<unknown>
}

const revocations: readonly Revocation[] = [
  {
    name: "a ban",
    act: ({ ada, lin, server_id }, place) => ada.on(place).banUser({ server_id, user_id: lin.id }),
    told: "GUILD_DELETE",
    refused: "access_denied",
  },
  {
    name: "a kick",
    act: ({ ada, lin, server_id }, place) => ada.on(place).kickMember({ server_id, member_id: lin.id }),
    told: "GUILD_DELETE",
    refused: "access_denied",
  },
  {
    name: "a logout",
    act: ({ lin }, place) => lin.on(place).logout(),
    told: undefined,
    refused: "revoked_token",
  },
  {
    name: "a role that is taken away",
    prepare: forTheCrew,
    act: ({ ada, lin, server_id, role_id }, place) => ada.on(place).takeRole({ server_id, member_id: lin.id, role_id }),
    told: "CHANNEL_DELETE",
    refused: "access_denied",
    undo: ({ ada, lin, server_id, role_id }, place) =>
      ada.on(place).giveRole({ server_id, member_id: lin.id, role_id }),
  },
  {
    name: "a role that is deleted",
    prepare: forTheCrew,
    act: ({ ada, server_id, role_id }, place) => ada.on(place).deleteRole({ server_id, role_id }),
    told: "CHANNEL_DELETE",
    refused: "access_denied",
  },
  {
    name: "a role that grants less",
    prepare: (scene, place) => show(scene, place, scene.ada.id, "member"),
    act: (scene, place) => everyone(scene, place, false),
    told: "CHANNEL_DELETE",
    refused: "access_denied",
    undo: (scene, place) => everyone(scene, place, true),
  },
  {
    name: "a channel hidden from everybody",
    act: (scene, place) => hide(scene, place, scene.server_id),
    told: "CHANNEL_DELETE",
    refused: "access_denied",
    undo: ({ ada, channel_id, server_id }, place) => ada.on(place).deleteOverride({ channel_id, target_id: server_id }),
  },
  {
    name: "a channel hidden from one member",
    act: (scene, place) => hide(scene, place, scene.lin.id, "member"),
    told: "CHANNEL_DELETE",
    refused: "access_denied",
    undo: (scene, place) => show(scene, place, scene.lin.id, "member"),
  },
  {
    name: "the loss of the ownership",
    async prepare(scene, place) {
      const { ada, lin, server_id } = scene
      await show(scene, place, ada.id, "member")
      await hide(scene, place, server_id)
      await handOver(scene, ada, lin, place)
    },
    act: (scene, place) => handOver(scene, scene.lin, scene.ada, place),
    told: "CHANNEL_DELETE",
    refused: "access_denied",
    undo: (scene, place) => handOver(scene, scene.ada, scene.lin, place),
  },
]
const undoable = revocations.filter(({ undo }) => undo !== undefined)

type Side = "before" | "during" | "after"
let posted = 0
let asked = 0

/**
 * Posts through several workers at once the whole time, and knows of every post on which side of
 * the act it is.
 */
class Posts {
  readonly #sides = new Map<string, Side>()
  #side: Side = "before"
  #done = false
  readonly #posting: Promise<unknown>

  constructor(scene: Scene, places: () => readonly Endpoint[], content = "x") {
    const post = async () => {
      while (!this.#done) {
        const [from, nonce] = [this.#side, `${posted++}`]
        let id: string | undefined
        // Whatever becomes of the worker: with its nonce it is one post, however often it is asked
        // for.
        for (let attempt = 0; id === undefined && attempt < 2_000; attempt++)
          id = await this.#post(scene, places(), `${nonce} ${content}`, nonce)
        // What was answered before the act was asked for is before; what was asked for after its
        // answer is after.
        if (id !== undefined) this.#sides.set(id, from === this.#side ? from : "during")
      }
    }
    this.#posting = Promise.all([post(), post()])
  }

  async #post({ ada, channel_id }: Scene, places: readonly Endpoint[], content: string, nonce: string) {
    const place = places[asked++ % places.length]!
    const sent = await ada
      .on(place)
      .createMessage({ channel_id, content, nonce })
      .catch(() => undefined)
    if (!sent) await sleep(20)
    return sent?.id
  }

  count(side: Side): number {
    return [...this.#sides.values()].filter(one => one === side).length
  }
  some(side: Side, count = 5): Promise<void> {
    return until(`some posts ${side}`, () => this.count(side) >= count, { timeoutMs: 60_000 })
  }
  /** Some posts before, then the act, then some posts after. */
  async around(act: () => Promise<unknown>): Promise<void> {
    const earlier = this.count("before")
    await this.some("before", earlier + 5)
    this.#side = "during"
    await act()
    this.#side = "after"
    await this.some("after")
  }
  async end(): Promise<void> {
    this.#done = true
    await this.#posting
  }
  side(id: string): Side | undefined {
    return this.#sides.get(id)
  }
  of(side: Side): string[] {
    return [...this.#sides].filter(([, one]) => one === side).map(([id]) => id)
  }
}

const idOf = ({ data }: ReceivedEvent) => (data as { id: string }).id
const postedIn = (events: readonly ReceivedEvent[], { channel_id }: Scene) =>
  events.flatMap(event =>
    event.name === "MESSAGE_CREATE" && event.data.channel_id === channel_id ? [event.data.id] : [],
  )

/**
 * Holds what a session received against what it may have. `whole`: everything before the act must
 * be there.
 */
function checkEnd(events: readonly ReceivedEvent[], scene: Scene, posts: Posts, revocation: Revocation, whole = true) {
  const heard = postedIn(events, scene)
  const sides = heard.map(id => posts.side(id))
  expect(sides.filter(side => side === "after" || side === undefined)).toEqual([])
  if (whole) expect(heard).toEqual(expect.arrayContaining(posts.of("before")))
  expect(new Set(heard).size).toBe(heard.length)
  if (revocation.told === undefined) return
  const subject = revocation.told === "GUILD_DELETE" ? scene.server_id : scene.channel_id
  const told = events.filter(event => event.name === revocation.told && idOf(event) === subject)
  expect(told).toHaveLength(1)
  const last = events.findLastIndex(
    event => event.name === "MESSAGE_CREATE" && event.data.channel_id === scene.channel_id,
  )
  expect(events.indexOf(told[0]!)).toBeGreaterThan(last)
}

async function checkRefused({ lin, channel_id }: Scene, places: readonly Endpoint[], { refused }: Revocation) {
  for (const place of places) {
    const rest = lin.on(place)
    expect(await refusal(rest.createMessage({ channel_id, content: "late" }))).toBe(refused)
    expect(await refusal(rest.listMessages({ channel_id }))).toBe(refused)
    expect(await refusal(rest.getChannel({ channel_id }))).toBe(refused)
    expect(await refusal(rest.startTyping({ channel_id }))).toBe(refused)
  }
}

/** Who is still in the server goes on hearing of the rest of it. */
async function checkRest(cluster: Cluster, scene: Scene, inbox: Listener, place: Endpoint, { told }: Revocation) {
  if (told !== "CHANNEL_DELETE" || inbox.state !== "live") return
  const { ada, lin, open_id, server_id } = scene
  const seen = (await lin.on(place).listChannels({ server_id })).map(({ id }) => id)
  expect(seen).not.toContain(scene.channel_id)
  if (!seen.includes(open_id)) return
  const sent = await ada.on(place).createMessage({ channel_id: open_id, content: "to all" })
  await inbox.next("MESSAGE_CREATE", { where: ({ id }) => id === sent.id })
  await cluster.settle()
}

function listenTo(inbox: Listener): ReceivedEvent[] {
  const events: ReceivedEvent[] = []
  inbox.on("dispatch", event => events.push(event))
  return events
}

const patient = { timeout: 180_000 }

describe.each(revocations)("P12, P13: $name", revocation => {
  test("stops what live sessions get, on the home's worker and on another", patient, async ({ shared }) => {
    const { east, west } = shared
    const one = await scene(shared, east)
    await revocation.prepare?.(one, west)
    const inboxes = await Promise.all([one.lin.listen(east), one.lin.listen(west, { encoding: "msgpack" })])
    const heard = inboxes.map(listenTo)
    const posts = new Posts(one, () => [east, west])
    await posts.around(() => revocation.act(one, west))
    await checkRefused(one, [east, west], revocation)
    await posts.end()
    await shared.settle()
    for (const events of heard) checkEnd(events, one, posts, revocation)
    for (const inbox of inboxes) await checkRest(shared, one, inbox, east, revocation)
  })

  test.for(["here", "elsewhere"] as const)(
    "stops events to a session that resumes %s, with an old position too",
    patient,
    async (where, { shared }) => {
      const { east, west } = shared
      const one = await scene(shared, east)
      await revocation.prepare?.(one, west)
      const inbox = await one.lin.listen(east)
      const events = listenTo(inbox)
      const posts = new Posts(one, () => [east, west])
      await posts.some("before")
      inbox.drop()
      await posts.around(() => revocation.act(one, west))
      await posts.end()
      const place = where === "here" ? east : west
      if (revocation.refused === "revoked_token") {
        await expect(inbox.reconnect(place.url)).rejects.toMatchObject({ code: 4004 })
        checkEnd(events, one, posts, revocation, false)
        return
      }
      await inbox.reconnect(place.url)
      await shared.settle()
      // Of a server that they left, what they missed before is not replayed to them elsewhere.
      checkEnd(events, one, posts, revocation, where === "here" || revocation.told === "CHANNEL_DELETE")
      await checkRest(shared, one, inbox, east, revocation)
    },
  )
})

describe.each(undoable)("P13: when $name is undone", ({ prepare, act, undo }) => {
  test.for(["live", "resumed here", "resumed elsewhere"] as const)(
    "the channel is told of, then its events come: %s",
    patient,
    async (state, { shared }) => {
      const { east, west } = shared
      const one = await scene(shared, east)
      await prepare?.(one, west)
      await act(one, west)
      const inbox = await one.lin.listen(east)
      const events = listenTo(inbox)
      const posts = new Posts(one, () => [east, west])
      if (state !== "live") inbox.drop()
      await posts.around(() => undo!(one, west))
      await posts.end()
      if (state !== "live") await inbox.reconnect((state === "resumed here" ? east : west).url)
      await shared.settle()
      const heard = postedIn(events, one)
      expect(heard.filter(id => posts.side(id) === "before")).toEqual([])
      expect(heard).toEqual(expect.arrayContaining(posts.of("after")))
      expect(new Set(heard).size).toBe(heard.length)
      const told = events.findIndex(event => event.name === "CHANNEL_CREATE" && event.data.id === one.channel_id)
      const first = events.findIndex(
        event => event.name === "MESSAGE_CREATE" && event.data.channel_id === one.channel_id,
      )
      expect(told).toBeGreaterThanOrEqual(0)
      expect(told).toBeLessThan(first)
      expect(await one.lin.on(west).listMessages({ channel_id: one.channel_id })).not.toEqual([])
    },
  )
})

// However long the others take on a busy machine, nobody is closed for reading nothing meanwhile.
const slowTest = testWith({
  topology: {
    gateway: {
      heartbeatIntervalMs: 600_000,
      sockets: { budgetBytes: 64 * 1024, sliceBytes: 32 * 1024, stuckAfterMs: 600_000 },
    },
  },
})

slowTest("P12, P13: each of them stops what a session gets that reads slowly", patient, async ({ shared }) => {
  const { east, west } = shared
  const slow = []
  for (const revocation of revocations) {
    const one = await scene(shared, west)
    await revocation.prepare?.(one, west)
    slow.push({ revocation, one })
  }
  // One flood for all of them: they are members of one more server.
  const [{ one: first }] = slow as [(typeof slow)[0]]
  const { id: server_id } = await first.ada.on(west).createServer({ name: "Flood" })
  const [channel] = await first.ada.on(west).listChannels({ server_id })
  const { code } = await first.ada.on(west).createInvite({ channel_id: channel!.id })
  const before = await fallen(east)
  const readers = []
  for (const { revocation, one } of slow) {
    await one.lin.on(west).joinByInvite({ invite_code: code })
    const inbox = await one.lin.listen(east)
    readers.push({ revocation, one, inbox, events: listenTo(inbox) })
    inbox.pause()
  }
  const torrent = { ...first, channel_id: channel!.id }
  // Four bytes a letter, and no word that a search would find.
  const flood = Array.from({ length: 4 }, () => new Posts(torrent, () => [east, west], "𝄞".repeat(3_900)))
  const haveFallen = async () => (await fallen(east)) >= before + readers.length
  await until("they have fallen behind", haveFallen, { timeoutMs: 120_000, everyMs: 50 })
  await Promise.all(flood.map(posts => posts.end()))
  const early = flood.flatMap(one => one.of("before"))
  for (const { revocation, one, inbox, events } of readers) {
    const posts = new Posts(one, () => [east, west])
    await posts.around(() => revocation.act(one, west))
    await posts.end()
    inbox.unpause()
    await shared.settle()
    if (revocation.told === undefined) {
      // A socket that does not take its close frame within seconds is cut; who comes back learns why.
      expect([4004, 1006]).toContain((await inbox.ended()).code)
      await expect(inbox.reconnect(east.url)).rejects.toMatchObject({ code: 4004 })
    } else {
      // Others are paused still, so the cluster counts as settled while this one reads on.
      const subject = revocation.told === "GUILD_DELETE" ? one.server_id : one.channel_id
      const hasCaughtUp = () => {
        const heard = new Set(postedIn(events, torrent))
        const isTold = events.some(event => event.name === revocation.told && idOf(event) === subject)
        return isTold && early.every(id => heard.has(id))
      }
      await until("it has caught up", hasCaughtUp, { timeoutMs: 60_000 })
      const heard = postedIn(events, torrent)
      expect(new Set(heard).size).toBe(heard.length)
    }
    checkEnd(events, one, posts, revocation, revocation.told !== undefined)
    await checkRest(shared, one, inbox, east, revocation)
    inbox.close()
  }
})

const fallen = (worker: Worker): Promise<number> => gauge(worker, "starling_gateway_fallen_to_reading_total")

const committed = [
  "a ban",
  "a kick",
  "a role that is taken away",
  "a role that is deleted",
  "a channel hidden from everybody",
]

describe.each(revocations.filter(({ name }) => committed.includes(name)))("P12, P13: $name", revocation => {
  test("holds though its owner ended between commit and publication", patient, async ({ cluster }) => {
    const [owner, other] = (await cluster.boot(2)) as [Worker, Worker]
    let one = await scene(cluster, owner)
    while ((await ownerOf(cluster, one.server_id)) !== owner.id) one = await scene(cluster, owner)
    await revocation.prepare?.(one, owner)
    const [there, here] = await Promise.all([one.lin.listen(other), one.lin.listen(owner)])
    const heard = [there, here].map(listenTo)
    const posts = new Posts(one, () => cluster.workers)
    await posts.some("before")

    // From here on nothing that the owner commits is published by it.
    owner.node.logs.append = () => new Promise(() => {})
    const asked = revocation.act(one, owner).catch(() => {})
    await until("it is committed", async () => isCommitted(cluster, one, revocation.name))
    await owner.stop()
    cluster.errors.length = 0
    await asked
    await posts.around(async () => {
      // Asked again, it is answered, or what it was about is gone.
      await revocation.act(one, other).catch((error: unknown) => {
        if (!/not found/.test(String(error))) throw error
      })
    })
    await checkRefused(one, [other], revocation)
    await posts.end()
    await here.reconnect(other.url)
    await cluster.settle()
    for (const events of heard) checkEnd(events, one, posts, revocation, false)
    for (const inbox of [here, there]) await checkRest(cluster, one, inbox, other, revocation)
  })
})

async function ownerOf({ sql }: Cluster, id: string): Promise<string | null> {
  const [row] = await sql<{ owner: string | null }[]>`SELECT owner FROM shards WHERE shard = ${shardOf(id)}`
  return row!.owner
}

async function isCommitted({ sql }: Cluster, { lin, server_id, channel_id, role_id }: Scene, name: string) {
  const rows =
    name === "a ban"
      ? await sql`SELECT FROM bans WHERE server_id = ${server_id}`
      : name === "a kick"
        ? await sql`SELECT WHERE NOT EXISTS (SELECT FROM members WHERE server_id = ${server_id} AND user_id = ${lin.id})`
        : name === "a role that is taken away"
          ? await sql`SELECT FROM members WHERE server_id = ${server_id} AND user_id = ${lin.id} AND roles = '{}'`
          : name === "a role that is deleted"
            ? await sql`SELECT WHERE NOT EXISTS (SELECT FROM roles WHERE id = ${role_id})`
            : await sql`SELECT FROM channel_overrides WHERE channel_id = ${channel_id} AND target_id = ${server_id}`
  return rows.length > 0
}

test(
  "P12, P13: a ban and a hidden channel hold though every worker is killed with -9",
  patient,
  async ({ cluster }) => {
    const program = await cluster.processes(2)
    const lives = []
    for (const name of ["a ban", "a channel hidden from everybody"]) {
      const revocation = revocations.find(one => one.name === name)!
      const one = await scene(cluster, program)
      const own = await one.lin.on(program).createServer({ name: "Lin's own" })
      const [marked] = await one.lin.on(program).listChannels({ server_id: own.id })
      const inbox = await one.lin.listen(program)
      const events = listenTo(inbox)
      const posts = new Posts(one, () => [program])
      await posts.around(() => revocation.act(one, program))
      lives.push({ revocation, one, marked: marked!, inbox, events, posts })
    }
    for (const { pid, slot } of await program.workers()) {
      if (!slot.startsWith("web")) continue
      program.kill(pid, "SIGKILL")
      for (const { posts } of lives) {
        const seen = posts.count("after")
        await posts.some("after", seen + 5)
      }
    }
    for (const { revocation, one, marked, inbox, events, posts } of lives) {
      await posts.end()
      const reconnected = () =>
        inbox.reconnect(program.url).then(
          () => true,
          () => false,
        )
      await until("they are back", reconnected, { timeoutMs: 60_000, everyMs: 200 })
      const mark = await one.lin.on(program).createMessage({ channel_id: marked.id, content: "mark", nonce: "mark" })
      await inbox.next("MESSAGE_CREATE", { where: ({ id }) => id === mark.id, timeoutMs: 30_000 })
      checkEnd(events, one, posts, revocation, false)
    }
  },
)

type Target = "everyone" | "crew" | "lin"
type Change =
  | { readonly do: "post"; readonly channel: 0 | 1 }
  | { readonly do: "grant"; readonly to: "everyone" | "crew"; readonly isGranted: boolean }
  | { readonly do: "assign"; readonly isGiven: boolean }
  | { readonly do: "disband" }
  | {
      readonly do: "override"
      readonly channel: 0 | 1
      readonly target: Target
      readonly says: "allow" | "deny" | "nothing"
    }
  | { readonly do: "own"; readonly isLin: boolean }
  | { readonly do: "kick" }
  | { readonly do: "drop" }
  | { readonly do: "resume"; readonly isElsewhere: boolean }

const channelIndex = fc.constantFrom(0 as const, 1 as const)
const change: fc.Arbitrary<Change> = fc.oneof(
  { arbitrary: fc.record({ do: fc.constant("post" as const), channel: channelIndex }), weight: 4 },
  {
    arbitrary: fc.record({
      do: fc.constant("grant" as const),
      to: fc.constantFrom("everyone" as const, "crew" as const),
      isGranted: fc.boolean(),
    }),
    weight: 2,
  },
  { arbitrary: fc.record({ do: fc.constant("assign" as const), isGiven: fc.boolean() }), weight: 2 },
  {
    arbitrary: fc.record({
      do: fc.constant("override" as const),
      channel: channelIndex,
      target: fc.constantFrom<Target>("everyone", "crew", "lin"),
      says: fc.constantFrom("allow" as const, "deny" as const, "nothing" as const),
    }),
    weight: 4,
  },
  { arbitrary: fc.record({ do: fc.constant("own" as const), isLin: fc.boolean() }), weight: 2 },
  { arbitrary: fc.constant<Change>({ do: "disband" }), weight: 2 },
  fc.constant<Change>({ do: "kick" }),
  fc.constant<Change>({ do: "drop" }),
  { arbitrary: fc.record({ do: fc.constant("resume" as const), isElsewhere: fc.boolean() }), weight: 2 },
)

/** Who sees what, as plainly as it can be said, and what Lin is told because of it. */
class Model {
  readonly told: string[] = []
  isMember = true
  isOwner = false
  hasRole = true
  readonly grants = { everyone: true, crew: false }
  readonly overrides: Partial<Record<Target, "allow" | "deny" | "nothing">>[] = [{}, {}]

  sees(channel: 0 | 1): boolean {
    if (!this.isMember) return false
    if (this.isOwner) return true
    const { everyone, crew, lin } = this.overrides[channel]!
    let sees = this.grants.everyone || (this.hasRole && this.grants.crew)
    for (const says of [everyone, this.hasRole ? crew : undefined, lin])
      if (says === "allow" || says === "deny") sees = says === "allow"
    return sees
  }

  /** With the role goes whatever channels said of it; the next of that name begins anew. */
  disband(): void {
    this.hasRole = false
    this.grants.crew = false
    for (const said of this.overrides) delete said.crew
  }

  change(make: () => void): void {
    const before = [this.sees(0), this.sees(1)]
    make()
    for (const channel of [0, 1] as const) if (before[channel] && !this.sees(channel)) this.told.push(`lost ${channel}`)
    for (const channel of [0, 1] as const)
      if (!before[channel] && this.sees(channel)) this.told.push(`gained ${channel}`)
  }
}

/** The same words for what a session received. */
function wordsOf(events: readonly ReceivedEvent[], channels: readonly string[]): string[] {
  const found = events.flatMap(({ name, s, data }) => {
    const { id, content, channel_id } = data as { id: string; content?: string; channel_id?: string }
    const channel = channels.indexOf(channel_id ?? id)
    if (name === "MESSAGE_CREATE") return [{ s, word: `${content} in ${channel}` }]
    if (name === "CHANNEL_CREATE") return [{ s, word: `gained ${channel}` }]
    if (name === "CHANNEL_DELETE") return [{ s, word: `lost ${channel}` }]
    if (name === "CHANNEL_UPDATE") return [{ s, word: `updated ${channel}` }]
    if (name === "GUILD_DELETE") return [{ s, word: "left" }]
    if (name !== "GUILD_CREATE") return []
    const shown = (data as { channels: { id: string }[] }).channels.map(({ id }) => id)
    return [{ s, word: `joined ${[0, 1].filter(channel => shown.includes(channels[channel]!)).join()}` }]
  })
  // What one change says at once has no order. Only the last of it has the change's position.
  const isOfView = (i: number) => /^(?:lost|gained) /.test(found[i]?.word ?? "")
  for (let i = found.length - 2; i >= 0; i--)
    if (isOfView(i) && isOfView(i + 1) && found[i + 1]!.s - found[i]!.s === 1) found[i]!.s++
  const rank = ({ word }: { word: string }) => (word.startsWith("lost") ? `0 ${word}` : `1 ${word}`)
  return found.toSorted((a, b) => a.s - b.s || (rank(a) < rank(b) ? -1 : 1)).map(({ word }) => word)
}

test(
  "ROLE2, P13: whatever changes, wherever the session reads, it is told what a plain model says",
  { timeout: 240_000 },
  async ({ shared }) => {
    const { east, west } = shared
    await fc.assert(
      fc.asyncProperty(fc.array(change, { minLength: 8, maxLength: 30, size: "max" }), async changes => {
        const there = await scene(shared, east)
        const { ada, lin, server_id } = there
        const channels = [there.channel_id, there.open_id]
        const targets = { everyone: server_id, crew: there.role_id, lin: lin.id }
        // So that she can do the same when Lin owns it.
        const chief = await ada.on(east).createRole({ server_id, permissions: { administrator: true } })
        await ada.on(east).giveRole({ server_id, member_id: ada.id, role_id: chief.id })
        const { code } = await ada.on(east).createInvite({ channel_id: there.open_id, max_age: 0 })
        const [mover, still] = await Promise.all([lin.listen(east), lin.listen(west, { encoding: "msgpack" })])
        const heard = [mover, still].map(listenTo)
        const model = new Model()
        let at = east
        let isOffline = false
        let n = 0
        const place = () => (n++ % 2 === 0 ? east : west)
        const resume = async (isElsewhere: boolean) => {
          if (isElsewhere) at = at === east ? west : east
          await mover.reconnect(at.url)
          isOffline = false
        }
        for (const one of changes) {
          const rest = ada.on(place())
          if (one.do === "post") {
            const content = `${n}`
            await rest.createMessage({ channel_id: channels[one.channel]!, content })
            if (model.sees(one.channel)) model.told.push(`${content} in ${one.channel}`)
          } else if (one.do === "grant") {
            const permissions = { "channels.view": one.isGranted, "messages.send": true, "messages.read": true }
            await rest.editRole({ server_id, role_id: targets[one.to], permissions })
            model.change(() => (model.grants[one.to] = one.isGranted))
          } else if (one.do === "assign") {
            if (!model.isMember) continue
            const assigned = { server_id, member_id: lin.id, role_id: targets.crew }
            await rest[one.isGiven ? "giveRole" : "takeRole"](assigned)
            model.change(() => (model.hasRole = one.isGiven))
          } else if (one.do === "disband") {
            await rest.deleteRole({ server_id, role_id: targets.crew })
            model.change(() => model.disband())
            const another = await rest.createRole({ server_id, name: "Crew", permissions: { "messages.read": true } })
            targets.crew = another.id
            await rest.editRole({ server_id, role_id: another.id, position: 1 }) // below the chief's
          } else if (one.do === "override") {
            // Nobody ranks above the owner.
            if (one.target === "lin" && model.isOwner) continue
            const [channel_id, target_id] = [channels[one.channel]!, targets[one.target]]
            const type = one.target === "lin" ? ("member" as const) : ("role" as const)
            const lists = { allow: one.says === "allow" ? view : [], deny: one.says === "deny" ? view : [] }
            await rest.setOverride({ channel_id, target_id, type, ...lists })
            const said = model.overrides[one.channel]!
            const isAnother = said[one.target] !== one.says
            model.change(() => (said[one.target] = one.says))
            if (isAnother && model.sees(one.channel)) model.told.push(`updated ${one.channel}`)
          } else if (one.do === "own") {
            if (one.isLin === model.isOwner) continue
            await handOver(there, ...(one.isLin ? ([ada, lin] as const) : ([lin, ada] as const)), place())
            model.change(() => (model.isOwner = one.isLin))
          } else if (one.do === "kick") {
            // Elsewhere a session is told of servers as of now.
            if (isOffline || model.isOwner) continue
            await shared.settle()
            await rest.kickMember({ server_id, member_id: lin.id })
            await lin.on(place()).joinByInvite({ invite_code: code })
            model.hasRole = false
            model.told.push("left", `joined ${([0, 1] as const).filter(channel => model.sees(channel)).join()}`)
            await shared.settle()
          } else if (one.do === "drop") {
            if (!isOffline) mover.drop()
            isOffline = true
          } else if (isOffline) await resume(one.isElsewhere)
        }
        if (isOffline) await resume(true)
        await shared.settle()
        const seen = (await lin.on(west).listChannels({ server_id })).map(({ id }) => id)
        for (const channel of [0, 1] as const) expect(seen.includes(channels[channel]!)).toBe(model.sees(channel))
        for (const events of heard) expect(wordsOf(events, channels)).toEqual(model.told)
        for (const client of [mover, still]) client.close()
      }),
      { numRuns: runs(8), interruptAfterTimeLimit: 120_000, endOnFailure: true },
    )
  },
)
