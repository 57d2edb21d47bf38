import fc from "fast-check"

/** How far two parts of the system are from one another. */
export type PathName = "redis" | "store"

export type RelationshipVerb = "requestFriend" | "acceptFriend" | "deleteRelationship" | "blockUser"

/** Ways in which somebody's access ends for a while. */
export const barriers = ["kick", "ban", "member override", "role override", "role", "owner"] as const
export type Barrier = (typeof barriers)[number]

/** One thing that happens in a run. Numbers name workers, clients and the like, modulo how many there are. */
export type Action =
  | { readonly do: "post"; readonly person: number; readonly channel: number; readonly count: number }
  | { readonly do: "edit" | "delete"; readonly person: number }
  | { readonly do: "leave" | "join"; readonly server: number }
  | { readonly do: "logout" }
  /** Some of what two may do to one another, at once. */
  | {
      readonly do: "relate"
      readonly person: number
      readonly other: number
      readonly verbs: readonly { readonly by: 0 | 1; readonly verb: RelationshipVerb }[]
    }
  /** A guest loses access to a server or to one of its channels, and gets it back after a while. */
  | {
      readonly do: "bar"
      readonly server: number
      readonly channel: number
      readonly how: Barrier
      readonly lastsMs: number
    }
  | { readonly do: "create server" | "delete server" }
  | { readonly do: "break off"; readonly client: number; readonly awayForMs: number }
  | { readonly do: "slow"; readonly client: number; readonly pace: number; readonly lastsMs: number }
  | { readonly do: "kill"; readonly worker: number }
  | { readonly do: "kill all" }
  | { readonly do: "pause"; readonly worker: number; readonly lastsMs: number }
  | { readonly do: "drain"; readonly worker: number }
  | { readonly do: "start" }
  | { readonly do: "cut"; readonly worker: number; readonly path: PathName; readonly lastsMs: number }
  /** Its sockets to other workers of its host, though all of them live. */
  | { readonly do: "break sockets"; readonly worker: number }
  | {
      readonly do: "slow path"
      readonly worker: number
      readonly path: PathName
      readonly byMs: number
      readonly lastsMs: number
    }
  | { readonly do: "pause redis" | "pause store"; readonly lastsMs: number }
  | { readonly do: "flush redis" | "replace redis" }
  /** Redis gets its first copy: its replication id changes under connections that stay. */
  | { readonly do: "copy redis" }
  /** A copy of Redis takes over that lacks the last writes. */
  | { readonly do: "fail over"; readonly behind: number }
  | { readonly do: "skew"; readonly worker: number; readonly byMs: number }
  | { readonly do: "wait"; readonly lastsMs: number }

export interface PlannedStep {
  /** Since the one before. */
  readonly afterMs: number
  readonly action: Action
}

export interface Plan {
  /** For every choice that the plan leaves open: delays, orders, what is lost. */
  readonly seed: number
  readonly workers: number
  /** Probability that a message of a cut or crossing path is lost, or done though its answer is lost, or done twice. */
  readonly loss: number
  readonly steps: readonly PlannedStep[]
}

const small = fc.nat({ max: 7 })
const lastsMs = fc.oneof(
  { weight: 3, arbitrary: fc.integer({ min: 10, max: 600 }) },
  { weight: 2, arbitrary: fc.integer({ min: 600, max: 3_000 }) },
  { weight: 1, arbitrary: fc.integer({ min: 3_000, max: 6_000 }) },
)
const one = <T extends Action["do"]>(...names: T[]) => fc.record({ do: fc.constantFrom(...names) })

const actions: fc.WeightedArbitrary<Action>[] = [
  {
    weight: 14,
    arbitrary: fc.record({
      do: fc.constant("post" as const),
      person: small,
      channel: small,
      count: fc.integer({ min: 1, max: 6 }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constantFrom("edit" as const, "delete" as const), person: small }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constantFrom("leave" as const, "join" as const), server: small }) },
  { weight: 1, arbitrary: one("logout") },
  { weight: 1, arbitrary: one("create server", "delete server") as fc.Arbitrary<Action> },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("break off" as const),
      client: small,
      awayForMs: fc.oneof(fc.integer({ min: 0, max: 300 }), fc.integer({ min: 300, max: 4_000 })),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("slow" as const),
      client: small,
      pace: fc.integer({ min: 5, max: 150 }),
      lastsMs,
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("kill" as const), worker: small }) },
  { weight: 1, arbitrary: one("kill all") as fc.Arbitrary<Action> },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("pause" as const), worker: small, lastsMs }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("drain" as const), worker: small }) },
  { weight: 1, arbitrary: one("start") as fc.Arbitrary<Action> },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("cut" as const),
      worker: small,
      path: fc.constantFrom<PathName>("redis", "store"),
      lastsMs,
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("break sockets" as const), worker: small }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("slow path" as const),
      worker: small,
      path: fc.constantFrom<PathName>("redis", "store"),
      byMs: fc.integer({ min: 20, max: 1_500 }),
      lastsMs,
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom("pause redis" as const, "pause store" as const), lastsMs }) },
  { weight: 1, arbitrary: one("copy redis") as fc.Arbitrary<Action> },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant("skew" as const),
      worker: small,
      byMs: fc.constantFrom(-3_600_000, -1_000, 1_000, 3_600_000),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant("wait" as const), lastsMs: fc.integer({ min: 1_000, max: 9_000 }) }),
  },
]

/** Redis loses what it knew. */
const losses: fc.WeightedArbitrary<Action>[] = [
  { weight: 1, arbitrary: one("flush redis", "replace redis") as fc.Arbitrary<Action> },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant("fail over" as const), behind: fc.integer({ min: 0, max: 800 }) }),
  },
]

const relating: fc.WeightedArbitrary<Action> = {
  weight: 30,
  arbitrary: fc.record({
    do: fc.constant("relate" as const),
    person: small,
    other: small,
    verbs: fc.array(
      fc.record({
        by: fc.constantFrom<0 | 1>(0, 1),
        verb: fc.constantFrom<RelationshipVerb>(
          "requestFriend",
          "requestFriend",
          "acceptFriend",
          "deleteRelationship",
          "blockUser",
        ),
      }),
      { minLength: 1, maxLength: 4 },
    ),
  }),
}

const barring: fc.WeightedArbitrary<Action> = {
  weight: 16,
  arbitrary: fc.record({
    do: fc.constant("bar" as const),
    server: small,
    channel: small,
    how: fc.constantFrom(...barriers),
    lastsMs: fc.integer({ min: 10, max: 900 }),
  }),
}

const plansOf = (weighted: readonly fc.WeightedArbitrary<Action>[]): fc.Arbitrary<Plan> =>
  fc.record({
    seed: fc.nat({ max: 2 ** 31 - 1 }),
    workers: fc.integer({ min: 1, max: 3 }),
    loss: fc.constantFrom(0, 0, 0.002, 0.02),
    steps: fc.array(
      fc.record({ afterMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 400 })), action: fc.oneof(...weighted) }),
      { minLength: 3, maxLength: 22 },
    ),
  })

/** Histories worth living through. Shrinking takes steps away and makes them smaller. */
export const plans = plansOf(actions)
/** The same, in which Redis loses what it knew now and then. */
export const plansWithLosses = plansOf([...actions, ...losses])
/** The same, in which people befriend and block one another. */
export const plansWithFriends = plansOf([...actions, ...losses, relating])
/** The same, in which guests are kicked and banned, and channels are hidden from them. */
export const plansWithBarriers = plansOf([...actions, barring])
