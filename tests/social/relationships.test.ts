/**
 * Friends, requests and blocks: what each side sees of them, whatever crosses and whichever worker
 * is killed.
 */
import fc from "fast-check"
import { describe } from "vitest"
import { ApiError } from "../../client/rest.ts"
import type { RelationshipStatus } from "../../src/contract/social/relationships.ts"
import { compareIds, shardOf } from "../../src/domain/core/snowflake.ts"
import type { Cluster, Worker } from "../kit/cluster.ts"
import { refusal } from "../kit/conformance.ts"
import { runs } from "../kit/effort.ts"
import { randomFrom, type Random } from "../chaos/random.ts"
import type { Listener, Person, Endpoint, Starling } from "../kit/person.ts"
import { plantedId } from "../kit/seeds.ts"
import { expect, test, type SharedCluster } from "../kit/test.ts"
import { until } from "../kit/until.ts"

const patient = { timeout: 60_000 }
const avatarOf = ({ id }: Person) => `/api/v1/avatars/users/${id}`
const seconds = () => Math.floor(Date.now() / 1000)

/** What a client was told of friends and blocks. */
const toldTo = (inbox: Listener) =>
  inbox.rest().flatMap(event => (event.name.startsWith("RELATIONSHIP_") ? [[event.name, event.data] as const] : []))

async function listOf(person: Person, place: Endpoint): Promise<Record<string, RelationshipStatus>> {
  const list = await person.on(place).listRelationships()
  return Object.fromEntries(list.map(({ user_id, status }) => [user_id, status]))
}

/** Two people, the one with the lower id first or last: the home of that one decides for both. */
const orders = [{ who: "the elder" }, { who: "the younger" }] as const
async function two(cluster: Cluster, { who }: (typeof orders)[number]): Promise<[one: Person, other: Person]> {
  const both = [await cluster.person("one"), await cluster.person("two")]
  both.sort((a, b) => compareIds(a.id, b.id) * (who === "the elder" ? 1 : -1))
  return [both[0]!, both[1]!]
}

async function withInboxes(shared: SharedCluster, order: (typeof orders)[number]) {
  const [ada, lin] = await two(shared, order)
  const eve = await shared.person("eve")
  const [adas, lins, elsewhere, strange] = await Promise.all([
    ada.listen(shared.east),
    lin.listen(shared.west),
    lin.listen(shared.east, { encoding: "msgpack" }),
    eve.listen(shared.west),
  ])
  /**
   * Everything told since the last look. A stranger is told nothing, and two sessions of one user
   * the same.
   */
  const told = async () => {
    await shared.settle()
    expect(toldTo(strange)).toEqual([])
    const ofLin = toldTo(lins)
    expect(toldTo(elsewhere)).toEqual(ofLin)
    return { ada: toldTo(adas), lin: ofLin }
  }
  return { ada, lin, told, adas: ada.on(shared.east), lins: lin.on(shared.west) }
}

/** What a table of states shows: of each of two, on every worker. */
async function expectSides(
  shared: SharedCluster,
  [one, mine]: readonly [Person, RelationshipStatus | undefined],
  [other, theirs]: readonly [Person, RelationshipStatus | undefined],
) {
  for (const place of [shared.east, shared.west]) {
    expect(await listOf(one, place)).toEqual(mine ? { [other.id]: mine } : {})
    expect(await listOf(other, place)).toEqual(theirs ? { [one.id]: theirs } : {})
  }
}

describe.each(orders)("asked by $who", order => {
  test("P4: a request is seen by both, each in their own way, and nobody else hears of it", async ({ shared }) => {
    const { ada, lin, told, adas } = await withInboxes(shared, order)
    const before = seconds()
    const asked = await adas.requestFriend({ user_id: lin.id, message: "It is me, Ada 👋" })
    expect(asked).toEqual({ user_id: lin.id, status: "pending_outgoing", created_at: asked.created_at })
    expect(asked.created_at).toBeGreaterThanOrEqual(before)
    await expectSides(shared, [ada, "pending_outgoing"], [lin, "pending_incoming"])
    const { created_at } = asked
    expect(await lin.on(shared.east).listRelationships()).toEqual([
      {
        user_id: ada.id,
        username: ada.username,
        avatar_url: avatarOf(ada),
        status: "pending_incoming",
        presence: null,
        message: "It is me, Ada 👋",
        created_at,
      },
    ])
    expect((await ada.on(shared.west).listRelationships())[0]).toMatchObject({ message: null, presence: null })
    expect(await told()).toEqual({
      ada: [
        [
          "RELATIONSHIP_ADD",
          {
            user_id: lin.id,
            username: lin.username,
            avatar_url: avatarOf(lin),
            status: "pending_outgoing",
            created_at,
          },
        ],
      ],
      lin: [
        [
          "RELATIONSHIP_ADD",
          {
            user_id: ada.id,
            username: ada.username,
            avatar_url: avatarOf(ada),
            status: "pending_incoming",
            message: "It is me, Ada 👋",
            created_at,
          },
        ],
      ],
    })
    expect(await refusal(adas.requestFriend({ user_id: lin.id }))).toBe("relationship_exists")
  })

  test("an accepted request makes two friends, and both see the other's presence", async ({ shared }) => {
    const { ada, lin, told, adas, lins } = await withInboxes(shared, order)
    await adas.requestFriend({ user_id: lin.id, message: "gone when accepted" })
    await told()
    expect(await refusal(adas.acceptFriend({ user_id: lin.id }))).toBe("friend_request_not_found")
    expect(await lins.acceptFriend({ user_id: ada.id })).toEqual({ success: true })
    await expectSides(shared, [ada, "friend"], [lin, "friend"])
    const heard = await told()
    const friendly = (
      { id, username }: Person,
      { presence, created_at }: { presence?: unknown; created_at: number },
    ) => [
      "RELATIONSHIP_ADD",
      { user_id: id, username, avatar_url: `/api/v1/avatars/users/${id}`, status: "friend", presence, created_at },
    ]
    for (const [events, friend] of [
      [heard.ada, lin],
      [heard.lin, ada],
    ] as const) {
      const [, data] = events[0]! as unknown as [
        "RELATIONSHIP_ADD",
        { presence: { status: string }; created_at: number },
      ]
      expect(events).toEqual([friendly(friend, data)])
      expect(data.presence.status).toBe("online")
    }
    const [listed] = await lins.listRelationships()
    expect(listed).toMatchObject({ status: "friend", message: null, presence: { status: "online" } })
    expect(await refusal(lins.acceptFriend({ user_id: ada.id }))).toBe("friend_request_not_found")
    for (const [rest, id] of [
      [adas, lin.id],
      [lins, ada.id],
    ] as const)
      expect(await refusal(rest.requestFriend({ user_id: id }))).toBe("relationship_exists")
  })

  test("a request that meets the other's makes friends at once", async ({ shared }) => {
    const { ada, lin, told, adas, lins } = await withInboxes(shared, order)
    await adas.requestFriend({ user_id: lin.id })
    await told()
    const answer = await lins.requestFriend({ user_id: ada.id, message: "so do I" })
    expect(answer).toEqual({ user_id: ada.id, status: "friend", created_at: answer.created_at })
    await expectSides(shared, [ada, "friend"], [lin, "friend"])
    const heard = await told()
    for (const [events, friend] of [
      [heard.ada, lin],
      [heard.lin, ada],
    ] as const)
      expect(events).toEqual([
        [
          "RELATIONSHIP_ADD",
          expect.objectContaining({ user_id: friend.id, status: "friend", presence: { status: "online" } }),
        ],
      ])
  })

  test.for(["by the one who sent it", "by the one who got it"])(
    "a request is taken back %s",
    async (by, { shared }) => {
      const { ada, lin, told, adas, lins } = await withInboxes(shared, order)
      await adas.requestFriend({ user_id: lin.id })
      await told()
      const isSender = by === "by the one who sent it"
      const end = () =>
        isSender ? adas.deleteRelationship({ user_id: lin.id }) : lins.deleteRelationship({ user_id: ada.id })
      expect(await end()).toEqual({ success: true })
      await expectSides(shared, [ada, undefined], [lin, undefined])
      expect(await told()).toEqual({
        ada: [["RELATIONSHIP_REMOVE", { user_id: lin.id }]],
        lin: [["RELATIONSHIP_REMOVE", { user_id: ada.id }]],
      })
      expect(await refusal(end())).toBe("relationship_not_found")
      expect(await refusal(lins.acceptFriend({ user_id: ada.id }))).toBe("friend_request_not_found")
      expect(await told()).toEqual({ ada: [], lin: [] })
      // And may be sent anew.
      await adas.requestFriend({ user_id: lin.id })
    },
  )

  test("a friendship is ended for both", async ({ shared }) => {
    const { ada, lin, told, adas, lins } = await withInboxes(shared, order)
    await adas.requestFriend({ user_id: lin.id })
    await lins.acceptFriend({ user_id: ada.id })
    await told()
    expect(await adas.deleteRelationship({ user_id: lin.id })).toEqual({ success: true })
    await expectSides(shared, [ada, undefined], [lin, undefined])
    expect(await told()).toEqual({
      ada: [["RELATIONSHIP_REMOVE", { user_id: lin.id }]],
      lin: [["RELATIONSHIP_REMOVE", { user_id: ada.id }]],
    })
    for (const [rest, id] of [
      [adas, lin.id],
      [lins, ada.id],
    ] as const)
      expect(await refusal(rest.deleteRelationship({ user_id: id }))).toBe("relationship_not_found")
  })

  test.for(["nothing", "a friendship", "a request of Ada", "a request of Lin"])(
    "P12: a block ends %s, and keeps requests out on both sides",
    async (what, { shared }) => {
      const { ada, lin, told, adas, lins } = await withInboxes(shared, order)
      if (what === "a request of Lin") await lins.requestFriend({ user_id: ada.id })
      else if (what !== "nothing") await adas.requestFriend({ user_id: lin.id })
      if (what === "a friendship") await lins.acceptFriend({ user_id: ada.id })
      await told()
      const answer = await adas.blockUser({ user_id: lin.id })
      expect(answer).toEqual({ user_id: lin.id, status: "blocked", created_at: answer.created_at })
      await expectSides(shared, [ada, "blocked"], [lin, undefined])
      const [listed] = await adas.listRelationships()
      expect(listed).toMatchObject({ presence: { status: "offline" }, message: null, username: lin.username })
      const { created_at } = answer
      const mine = { user_id: lin.id, username: lin.username, avatar_url: avatarOf(lin), status: "blocked", created_at }
      expect(await told()).toEqual({
        ada: [["RELATIONSHIP_ADD", mine]],
        // They are not told of the block: only that there is nothing any more, if there was
        // something.
        lin: what === "nothing" ? [] : [["RELATIONSHIP_REMOVE", { user_id: ada.id }]],
      })
      expect(await refusal(lins.requestFriend({ user_id: ada.id, message: "why?" }))).toBe("relationship_blocked")
      expect(await refusal(adas.requestFriend({ user_id: lin.id }))).toBe("relationship_blocked")
      expect(await refusal(lins.acceptFriend({ user_id: ada.id }))).toBe("friend_request_not_found")
      expect(await refusal(adas.acceptFriend({ user_id: lin.id }))).toBe("friend_request_not_found")
      expect(await refusal(lins.deleteRelationship({ user_id: ada.id }))).toBe("relationship_not_found")
      expect(await refusal(adas.blockUser({ user_id: lin.id }))).toBe("already_blocked")
      await expectSides(shared, [ada, "blocked"], [lin, undefined])
      expect(await told()).toEqual({ ada: [], lin: [] })

      expect(await adas.deleteRelationship({ user_id: lin.id })).toEqual({ success: true })
      await expectSides(shared, [ada, undefined], [lin, undefined])
      expect(await told()).toEqual({ ada: [["RELATIONSHIP_REMOVE", { user_id: lin.id }]], lin: [] })
      expect(await refusal(adas.deleteRelationship({ user_id: lin.id }))).toBe("relationship_not_found")
      expect((await lins.requestFriend({ user_id: ada.id })).status).toBe("pending_outgoing")
    },
  )

  test("two may block one another; each lifts their own block only", async ({ shared }) => {
    const { ada, lin, told, adas, lins } = await withInboxes(shared, order)
    await adas.blockUser({ user_id: lin.id })
    await told()
    expect((await lins.blockUser({ user_id: ada.id })).status).toBe("blocked")
    await expectSides(shared, [ada, "blocked"], [lin, "blocked"])
    expect(await told()).toEqual({
      ada: [],
      lin: [["RELATIONSHIP_ADD", expect.objectContaining({ user_id: ada.id, status: "blocked" })]],
    })
    await adas.deleteRelationship({ user_id: lin.id })
    await expectSides(shared, [ada, undefined], [lin, "blocked"])
    expect(await told()).toEqual({ ada: [["RELATIONSHIP_REMOVE", { user_id: lin.id }]], lin: [] })
    expect(await refusal(adas.requestFriend({ user_id: lin.id }))).toBe("relationship_blocked")
    await lins.deleteRelationship({ user_id: ada.id })
    await expectSides(shared, [ada, undefined], [lin, undefined])
  })
})

test("oneself, nobody and what is no id are refused", async ({ shared }) => {
  const ada = await shared.person("ada")
  const rest = ada.on(shared.west)
  expect(await refusal(rest.requestFriend({ user_id: ada.id }))).toBe("self_request")
  expect(await refusal(rest.blockUser({ user_id: ada.id }))).toBe("self_block")
  expect(await refusal(rest.acceptFriend({ user_id: ada.id }))).toBe("friend_request_not_found")
  expect(await refusal(rest.deleteRelationship({ user_id: ada.id }))).toBe("relationship_not_found")
  for (const nobody of ["0", "1", plantedId(), "9223372036854775807"]) {
    expect(await refusal(rest.requestFriend({ user_id: nobody }))).toBe("user_not_found")
    expect(await refusal(rest.blockUser({ user_id: nobody }))).toBe("user_not_found")
    expect(await refusal(rest.acceptFriend({ user_id: nobody }))).toBe("friend_request_not_found")
    expect(await refusal(rest.deleteRelationship({ user_id: nobody }))).toBe("relationship_not_found")
  }
  for (const bad of ["", "me", "-1", "01", "1.5", "9223372036854775808", " 1", 2 ** 53, -1, 1.5] as string[]) {
    expect(await refusal(rest.requestFriend({ user_id: bad }))).toBe("invalid_user_id")
    expect(await refusal(rest.blockUser({ user_id: bad }))).toBe("invalid_user_id")
  }
  for (const bad of ["me", "-1", "9223372036854775808"]) {
    expect(await refusal(rest.acceptFriend({ user_id: bad }))).toBe("invalid_user_id")
    expect(await refusal(rest.deleteRelationship({ user_id: bad }))).toBe("invalid_user_id")
  }
  for (const bad of [null, true, [ada.id], { id: ada.id }] as unknown as string[]) {
    expect(await refusal(rest.requestFriend({ user_id: bad }))).toBe("validation_failed")
    expect(await refusal(rest.blockUser({ user_id: bad }))).toBe("validation_failed")
  }
  expect(await refusal(rest.requestFriend({} as { user_id: string }))).toBe("validation_failed")
  expect(await rest.listRelationships()).toEqual([])
})

test("a message has up to 256 characters; none and an empty one are the same, and an id may come as a number", async ({
  shared,
}) => {
  const lin = await shared.person("lin")
  const cases: [message: string | null | undefined, kept: string | null][] = [
    ["👋".repeat(256), "👋".repeat(256)],
    ["", null],
    [null, null],
    [undefined, null],
  ]
  for (const [message, kept] of cases) {
    const sender = await shared.person("sender")
    const rest = sender.on(shared.east)
    for (const bad of ["x".repeat(257), 1, ["x"]] as string[])
      expect(await refusal(rest.requestFriend({ user_id: lin.id, message: bad }))).toBe("validation_failed")
    await rest.requestFriend({ user_id: lin.id, ...(message !== undefined && { message }) })
    const list = await lin.on(shared.west).listRelationships()
    expect(list.find(({ user_id }) => user_id === sender.id)?.message).toBe(kept)
  }
  // A number is an id as long as its digits are exact.
  const number = 4096 as unknown as string
  expect(await refusal(lin.on(shared.east).requestFriend({ user_id: number }))).toBe("user_not_found")
})

test("the list shows friends, incoming requests, outgoing requests and blocks, in this order, each by age", async ({
  shared,
}) => {
  const ada = await shared.person("ada")
  const rest = ada.on(shared.east)
  const wanted = ["blocked", "pending_outgoing", "friend", "pending_incoming", "friend", "blocked"] as const
  const made: { id: string; status: RelationshipStatus }[] = []
  for (const status of wanted) {
    const other = await shared.person("other")
    if (status === "blocked") await rest.blockUser({ user_id: other.id })
    else if (status === "pending_outgoing") await rest.requestFriend({ user_id: other.id })
    else await other.on(shared.west).requestFriend({ user_id: ada.id })
    if (status === "friend") await rest.acceptFriend({ user_id: other.id })
    made.push({ id: other.id, status })
  }
  const list = await ada.on(shared.west).listRelationships()
  const statuses = ["friend", "pending_incoming", "pending_outgoing", "blocked"]
  expect(list.map(({ user_id, status }) => ({ id: user_id, status }))).toEqual(
    made.toSorted((a, b) => statuses.indexOf(a.status) - statuses.indexOf(b.status)),
  )
  // Nobody of them has a session.
  expect(list.map(({ presence }) => presence?.status)).toEqual([
    "offline",
    "offline",
    undefined,
    undefined,
    "offline",
    "offline",
  ])
})

describe("of each kind nobody has more than a thousand", () => {
  const full = 1_000

  /** Somebody who has so many already, all with people who stand in the tables only. */
  async function crowded(shared: SharedCluster, status: RelationshipStatus) {
    const person = await shared.person("full")
    const ids = Array.from({ length: full }, () => plantedId())
    await shared.sql`
      INSERT INTO users (id, username, created_at) SELECT id, 'planted_' || id, 0 FROM unnest(${ids}::bigint[]) AS id`
    await shared.sql`
      INSERT INTO relationships (user_id, other_id, status, created_at)
      SELECT ${person.id}, id, ${status}, 0 FROM unnest(${ids}::bigint[]) AS id`
    return { person, rest: person.on(shared.east), ids }
  }
  const removeOne = (shared: SharedCluster, { person, ids }: { person: Person; ids: string[] }) =>
    shared.sql`DELETE FROM relationships WHERE user_id = ${person.id} AND other_id = ${ids.pop()!}`

  test.for(["sender", "other"])("of requests; the %s is full", async (side, { shared }) => {
    const isSender = side === "sender"
    const popular = await crowded(shared, isSender ? "pending_outgoing" : "pending_incoming")
    const lin = await shared.person("lin")
    const ask = () =>
      isSender
        ? popular.rest.requestFriend({ user_id: lin.id })
        : lin.on(shared.west).requestFriend({ user_id: popular.person.id })
    expect(await refusal(ask())).toBe("relationship_limit")
    expect(await listOf(lin, shared.east)).toEqual({})
    await removeOne(shared, popular)
    expect((await ask()).status).toBe("pending_outgoing")
    expect(await popular.rest.listRelationships()).toHaveLength(full)
  })

  test("of friends, on either side and by either way", async ({ shared }) => {
    const popular = await crowded(shared, "friend")
    const { person, rest } = popular
    const [lin, mo] = [await shared.person("lin"), await shared.person("mo")]
    await lin.on(shared.west).requestFriend({ user_id: person.id })
    await rest.requestFriend({ user_id: mo.id })
    expect(await refusal(rest.acceptFriend({ user_id: lin.id }))).toBe("relationship_limit")
    expect(await refusal(rest.requestFriend({ user_id: lin.id }))).toBe("relationship_limit")
    expect(await refusal(mo.on(shared.west).acceptFriend({ user_id: person.id }))).toBe("relationship_limit")
    expect(await listOf(lin, shared.east)).toEqual({ [person.id]: "pending_outgoing" })
    await removeOne(shared, popular)
    expect(await rest.acceptFriend({ user_id: lin.id })).toEqual({ success: true })
    expect(await refusal(mo.on(shared.west).acceptFriend({ user_id: person.id }))).toBe("relationship_limit")
  })

  test("of blocks; being blocked has no bound", async ({ shared }) => {
    const popular = await crowded(shared, "blocked")
    const lin = await shared.person("lin")
    expect(await refusal(popular.rest.blockUser({ user_id: lin.id }))).toBe("relationship_limit")
    expect((await lin.on(shared.west).blockUser({ user_id: popular.person.id })).status).toBe("blocked")
    await removeOne(shared, popular)
    expect((await popular.rest.blockUser({ user_id: lin.id })).status).toBe("blocked")
  })
})

test("requests and blocks have limits of their own", async ({ cluster }) => {
  const [worker] = await cluster.boot(1, { limited: true })
  const ada = await cluster.person("ada")
  await cluster.sql`INSERT INTO users (id, username, created_at) SELECT id, 'planted_' || id, 0 FROM generate_series(1, 20) AS id`
  const granted = async (call: (rest: Starling, user_id: string) => Promise<unknown>) => {
    for (let n = 1; n <= 20; n++)
      try {
        await call(ada.on(worker!), String(n))
      } catch (error) {
        if (error instanceof ApiError && error.status === 429) return n - 1
        throw error
      }
    return 20
  }
  expect(await granted((rest, user_id) => rest.requestFriend({ user_id }))).toBe(7)
  expect(await granted((rest, user_id) => rest.blockUser({ user_id }))).toBe(15)
})

type Verb = "requestFriend" | "acceptFriend" | "deleteRelationship" | "blockUser"
type Status = RelationshipStatus | "none"
type Sides = readonly [Status, Status]
/** 0 or 1: which of the two. */
type Who = 0 | 1
interface Command {
  readonly who: Who
  readonly verb: Verb
}

/** The two tables of the interface, as a machine of pairs. */
function modelled(sides: Sides, { who, verb }: Command): { sides: Sides; answer: string } {
  const [mine, theirs] = who === 0 ? sides : [sides[1], sides[0]]
  const become = (mine: Status, theirs: Status) => ({
    sides: (who === 0 ? [mine, theirs] : [theirs, mine]) as Sides,
    answer: "granted",
  })
  const refuse = (answer: string) => ({ sides, answer })
  switch (verb) {
    case "requestFriend":
      if (sides.includes("blocked")) return refuse("relationship_blocked")
      if (mine === "pending_incoming") return become("friend", "friend")
      return mine === "none" ? become("pending_outgoing", "pending_incoming") : refuse("relationship_exists")
    case "acceptFriend":
      return mine === "pending_incoming" ? become("friend", "friend") : refuse("friend_request_not_found")
    case "deleteRelationship":
      if (mine === "none") return refuse("relationship_not_found")
      return become("none", mine === "blocked" ? theirs : "none")
    case "blockUser":
      return mine === "blocked"
        ? refuse("already_blocked")
        : become("blocked", theirs === "blocked" ? "blocked" : "none")
  }
}

const outcomeOf = (call: Promise<unknown>): Promise<string> =>
  call.then(
    () => "granted",
    () => refusal(call),
  )
const act = (people: readonly [Person, Person], { who, verb }: Command, place: Endpoint): Promise<string> =>
  outcomeOf(people[who].on(place)[verb]({ user_id: people[1 - who]!.id }))

/** What the lists of two say of one another, read at the same place. */
async function sidesOf([one, other]: readonly [Person, Person], place: Endpoint): Promise<Sides> {
  const [ofOne, ofOther] = await Promise.all([listOf(one, place), listOf(other, place)])
  return [ofOne[other.id] ?? "none", ofOther[one.id] ?? "none"]
}

/** Back to strangers. */
async function part(people: readonly [Person, Person], place: Endpoint): Promise<void> {
  const sides = await sidesOf(people, place)
  for (const who of [0, 1] as const)
    if (sides[who] !== "none") await act(people, { who, verb: "deleteRelationship" }, place)
}

/** What a client knows that only listens; and that each word was news. */
function known(events: readonly (readonly [name: string, data: unknown])[], other: Person): Status {
  let status: Status = "none"
  for (const [name, data] of events) {
    const { user_id, status: said } = data as { user_id: string; status?: RelationshipStatus }
    expect(user_id).toBe(other.id)
    const next: Status = name === "RELATIONSHIP_ADD" ? said! : "none"
    expect(next, "each change is told once").not.toBe(status)
    status = next
  }
  return status
}

const races: [title: string, before: readonly Command[], crossing: readonly Command[]][] = [
  ["both ask", [], [{ who: 0, verb: "requestFriend" }, { who: 1, verb: "requestFriend" }]],
  [
    "one accepts while the other takes it back",
    [{ who: 0, verb: "requestFriend" }],
    [{ who: 0, verb: "deleteRelationship" }, { who: 1, verb: "acceptFriend" }],
  ],
  [
    "one blocks while the other accepts",
    [{ who: 0, verb: "requestFriend" }],
    [{ who: 0, verb: "blockUser" }, { who: 1, verb: "acceptFriend" }],
  ],
  [
    "both end a friendship",
    [{ who: 0, verb: "requestFriend" }, { who: 1, verb: "acceptFriend" }],
    [{ who: 0, verb: "deleteRelationship" }, { who: 1, verb: "deleteRelationship" }],
  ],
  ["one asks while the other blocks", [], [{ who: 0, verb: "requestFriend" }, { who: 1, verb: "blockUser" }]],
  ["both block", [], [{ who: 0, verb: "blockUser" }, { who: 1, verb: "blockUser" }]],
  [
    "one lifts a block while the other asks",
    [{ who: 0, verb: "blockUser" }],
    [{ who: 0, verb: "deleteRelationship" }, { who: 1, verb: "requestFriend" }],
  ],
  [
    "the same is accepted twice",
    [{ who: 0, verb: "requestFriend" }],
    [{ who: 1, verb: "acceptFriend" }, { who: 1, verb: "acceptFriend" }],
  ],
  [
    "everything at once",
    [{ who: 1, verb: "requestFriend" }],
    [
      { who: 0, verb: "acceptFriend" },
      { who: 1, verb: "deleteRelationship" },
      { who: 0, verb: "blockUser" },
      { who: 1, verb: "requestFriend" },
    ],
  ],
] // prettier-ignore

const permutations = <T>(list: readonly T[]): T[][] =>
  list.length === 0 ? [[]] : list.flatMap((one, i) => permutations(list.toSpliced(i, 1)).map(rest => [one, ...rest]))

describe.each(orders)("either way round, begun by $who", order => {
  test.for(races)(
    "REL1, P3: %s, and both sides agree, as in one order or the other",
    patient,
    async (race, { shared }) => {
      const [, before, crossing] = race
      const people = await two(shared, order)
      const random = randomFrom(order.who.length, race[0])
      const place = () => random.pick([shared.east, shared.west])
      const inboxes = await Promise.all(people.map(person => person.listen(place())))
      const events: [number, number] = [0, 0]
      for (let round = 0; round < runs(8); round++) {
        let sides: Sides = ["none", "none"]
        const become = (next: Sides) => {
          for (const who of [0, 1] as const) if (next[who] !== sides[who]) events[who]++
          sides = next
        }
        for (const command of before) {
          expect(await act(people, command, place())).toBe("granted")
          become(modelled(sides, command).sides)
        }
        const answers = await Promise.all(random.shuffled(crossing).map(async command => ({ command, answer: await act(people, command, place()) }))) // prettier-ignore
        const found = await sidesOf(people, place())
        const order = permutations(answers).find(order => {
          let now = sides
          const isSo = order.every(({ command, answer }) => {
            const next = modelled(now, command)
            now = next.sides
            return next.answer === answer
          })
          return isSo && now[0] === found[0] && now[1] === found[1]
        })
        expect(order, `round ${round}: ${JSON.stringify({ answers, found })}`).toBeDefined()
        for (const { command } of order!) become(modelled(sides, command).sides)
        for (const who of [0, 1] as const) {
          const command: Command = { who, verb: "deleteRelationship" }
          const { sides: next, answer } = modelled(sides, command)
          if (answer === "granted") expect(await act(people, command, place())).toBe("granted")
          become(next)
        }
      }
      await shared.settle()
      for (const who of [0, 1] as const) {
        const told = toldTo(inboxes[who]!)
        expect(known(told, people[1 - who]!)).toBe("none")
        expect(told).toHaveLength(events[who])
      }
    },
  )
})

test(
  "REL3, P4, P5: whatever is asked in whatever order on whatever worker, lists and events are those of the tables",
  { timeout: 120_000 },
  async ({ shared }) => {
    const people = [await shared.person("ann"), await shared.person("bob"), await shared.person("cy")] as const
    const inboxes = await Promise.all(people.map((person, i) => person.listen(i === 1 ? shared.east : shared.west)))
    const pairs = [[0, 1], [1, 2], [2, 0]] as const // prettier-ignore
    const command = fc.record({
      pair: fc.constantFrom(...pairs),
      who: fc.constantFrom<Who>(0, 1),
      verb: fc.constantFrom<Verb>("requestFriend", "acceptFriend", "deleteRelationship", "blockUser"),
      at: fc.constantFrom("east", "west"),
      seenAt: fc.constantFrom("east", "west"),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(command, { minLength: 4, maxLength: 16 }), async commands => {
        const peopleOf = ([a, b]: (typeof pairs)[number]) => [people[a], people[b]] as const
        for (const pair of pairs) await part(peopleOf(pair), shared.east)
        await shared.settle()
        for (const inbox of inboxes) inbox.rest()
        const model = new Map<(typeof pairs)[number], Sides>(pairs.map(pair => [pair, ["none", "none"]]))
        for (const { pair, who, verb, at, seenAt } of commands) {
          const { sides, answer } = modelled(model.get(pair)!, { who, verb })
          expect(await act(peopleOf(pair), { who, verb }, shared[at])).toBe(answer)
          model.set(pair, sides)
          expect(await sidesOf(peopleOf(pair), shared[seenAt])).toEqual(sides)
        }
        await shared.settle()
        for (const [i, inbox] of inboxes.entries()) {
          const events = toldTo(inbox)
          for (const [pair, sides] of model)
            for (const who of [0, 1] as const) {
              if (pair[who] !== i) continue
              const other = people[pair[1 - who]!]
              const about = events.filter(([, data]) => (data as { user_id: string }).user_id === other.id)
              expect(known(about, other)).toBe(sides[who])
            }
        }
      }),
      { numRuns: runs(8) },
    )
  },
)

const ownerOf = async ({ sql }: Cluster, id: string): Promise<string | null> =>
  (await sql<{ owner: string | null }[]>`SELECT owner FROM shards WHERE shard = ${shardOf(id)}`)[0]!.owner

/** The elder's home is on one worker, the younger's on the other. */
async function apart(cluster: Cluster, [ofElder, ofYounger]: readonly [Worker, Worker]) {
  const livingAt = async (worker: Worker) => {
    for (;;) {
      const person = await cluster.person("someone")
      if ((await ownerOf(cluster, person.id)) === worker.id) return person
    }
  }
  const elder = await livingAt(ofElder)
  const younger = await livingAt(ofYounger)
  expect(compareIds(elder.id, younger.id)).toBeLessThan(0)
  return [elder, younger] as const
}

describe("a worker ends in between", () => {
  test("P1, P5: the one that decides, after the commit and before anybody was told", patient, async ({ cluster }) => {
    const [owner, other] = (await cluster.boot(2)) as [Worker, Worker]
    const people = await apart(cluster, [owner, other])
    const [elder, younger] = people
    const inboxes = await Promise.all([elder.listen(other), younger.listen(other)])
    await elder.on(other).requestFriend({ user_id: younger.id })
    await cluster.settle()
    for (const inbox of inboxes) expect(toldTo(inbox)).toHaveLength(1)

    // From here on nothing that the owner commits is published by it.
    owner.node.logs.append = () => new Promise(() => {})
    const asked = younger.on(other).acceptFriend({ user_id: elder.id })
    const friends = () => cluster.sql`SELECT FROM relationships WHERE status = 'friend'`
    await until("it is committed", async () => (await friends()).length > 0)
    expect(await friends()).toHaveLength(2)
    await owner.stop()
    cluster.errors.length = 0
    // The answer was kept with what was done.
    expect(await asked).toEqual({ success: true })
    await until("somebody else decides", async () => (await ownerOf(cluster, elder.id)) === other.id)
    await cluster.settle()
    expect(await sidesOf(people, other)).toEqual(["friend", "friend"])
    for (const inbox of inboxes)
      expect(toldTo(inbox)).toEqual([["RELATIONSHIP_ADD", expect.objectContaining({ status: "friend" })]])
    expect(await outcomeOf(elder.on(other).deleteRelationship({ user_id: younger.id }))).toBe("granted")
    await cluster.settle()
    for (const inbox of inboxes) expect(toldTo(inbox)).toEqual([["RELATIONSHIP_REMOVE", expect.anything()]])
  })

  test(
    "REL4, P4, P5: the one that has to be told; both are answered meanwhile, and the other one is told all of it in order",
    patient,
    async ({ cluster }) => {
      const [owner, other] = (await cluster.boot(2)) as [Worker, Worker]
      const people = await apart(cluster, [owner, other])
      const [elder, younger] = people
      const inboxes = await Promise.all([elder.listen(owner), younger.listen(owner)])
      await cluster.settle()
      await other.stop()
      cluster.errors.length = 0
      const commands: Command[] = [
        { who: 0, verb: "requestFriend" },
        { who: 1, verb: "deleteRelationship" },
        { who: 1, verb: "requestFriend" },
        { who: 1, verb: "blockUser" },
        { who: 1, verb: "deleteRelationship" },
        { who: 0, verb: "requestFriend" },
      ]
      let sides: Sides = ["none", "none"]
      for (const command of commands) {
        await until(
          "it is granted",
          () =>
            act(people, command, owner).then(
              answer => answer === "granted",
              (error: unknown) => {
                // A question of presence to the worker that is gone.
                if (error instanceof ApiError && error.status === 503) return false
                throw error
              },
            ),
          { timeoutMs: 20_000 },
        )
        sides = modelled(sides, command).sides
        expect(await sidesOf(people, owner)).toEqual(sides)
      }
      await until("their home is owned again", async () => (await ownerOf(cluster, younger.id)) === owner.id)
      await cluster.settle()
      const statusesOf = (inbox: Listener) => toldTo(inbox).map(([, data]) => (data as { status?: string }).status)
      expect(inboxes.map(statusesOf)).toEqual([
        ["pending_outgoing", undefined, "pending_incoming", undefined, "pending_outgoing"],
        ["pending_incoming", undefined, "pending_outgoing", "blocked", undefined, "pending_incoming"],
      ])
    },
  )

  test(
    "P5: the one that decides; what it told before anybody listened is not told again by the next",
    patient,
    async ({ cluster }) => {
      const [owner, other] = (await cluster.boot(2)) as [Worker, Worker]
      const [elder, younger] = await apart(cluster, [owner, other])
      await elder.on(other).requestFriend({ user_id: younger.id })
      await cluster.settle()
      const inbox = await younger.listen(other)
      await younger.on(other).acceptFriend({ user_id: elder.id })
      await cluster.settle()
      expect(toldTo(inbox)).toEqual([["RELATIONSHIP_ADD", expect.objectContaining({ status: "friend" })]])
      await owner.stop()
      cluster.errors.length = 0
      await until("the next owner has published", async () => (await ownerOf(cluster, elder.id)) === other.id)
      await elder.on(other).listRelationships()
      await cluster.settle()
      expect(toldTo(inbox)).toEqual([])
      expect(await sidesOf([elder, younger], other)).toEqual(["friend", "friend"])
    },
  )

  test(
    "REL2, P1, P3, P5: one after another, while everybody changes their mind",
    { timeout: 120_000 },
    async ({ cluster }) => {
      await cluster.boot(3)
      const seed = 7
      const random = randomFrom(seed, "relationships")
      const people = await Promise.all(["ann", "bob", "cy", "dee"].map(name => cluster.person(name)))
      const inboxes = new Map<Person, Listener>()
      let changes = 0
      let maybe = 0
      const isOver = new AbortController()
      const doer = async (random: Random) => {
        while (!isOver.signal.aborted) {
          const [one, other] = random.shuffled(people) as [Person, Person, ...Person[]]
          const verb = random.pick([
            "requestFriend",
            "acceptFriend",
            "deleteRelationship",
            "requestFriend",
            "blockUser",
          ] as const)
          try {
            if ((await act([one, other], { who: 0, verb }, random.pick(cluster.workers))) === "granted") changes++
          } catch {
            maybe++ // a worker that ends
          }
        }
      }
      // Clients live on a worker that stays.
      const [stays] = cluster.workers
      for (const person of people) inboxes.set(person, await person.listen(stays!))
      const doers = Array.from({ length: 4 }, (_, i) => doer(randomFrom(seed + i, "doer")))
      for (let kill = 0; kill < 2; kill++) {
        const before = changes
        await until("things change", () => changes >= before + 40, { timeoutMs: 30_000 })
        await random.pick(cluster.workers.filter(worker => worker !== stays)).stop()
        await cluster.boot(1, { unbalanced: true })
      }
      const before = changes
      await until("things change", () => changes >= before + 40, { timeoutMs: 30_000 })
      isOver.abort()
      await Promise.all(doers)
      await cluster.balanced()
      await cluster.settle()
      // Workers that ended said so.
      cluster.errors.length = 0
      console.info(`${changes} changes, ${maybe} that may have been`)
      for (const one of people) {
        const events = toldTo(inboxes.get(one)!)
        for (const other of people) {
          if (one === other) continue
          const sides = await sidesOf([one, other], random.pick(cluster.workers))
          const fits = ["none none", "friend friend", "pending_outgoing pending_incoming", "pending_incoming pending_outgoing", "blocked none", "none blocked", "blocked blocked"] // prettier-ignore
          expect(fits).toContain(sides.join(" "))
          const about = events.filter(([, data]) => (data as { user_id: string }).user_id === other.id)
          expect(known(about, other)).toBe(sides[0])
        }
      }
    },
  )
})
