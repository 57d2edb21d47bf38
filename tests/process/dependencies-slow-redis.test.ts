/** P11: Redis paused, slow, or beyond a way that is cut or one-sided. */
import { ownWorld, suffer, type Fault } from "../kit/dependencies.ts"
import { test } from "../kit/test.ts"

const faults: Fault[] = [
  { name: "Redis paused", begin: ({ redis }) => redis.pause(), end: ({ redis }) => redis.resume() },
  {
    name: "way to Redis cut",
    begin: async ({ links }) => links.redis.set({ cut: true }),
    end: async ({ links }) => links.redis.set({}),
  },
  {
    name: "Redis 2 s late",
    begin: async ({ links }) => links.redis.set({ delayMs: 1_000 }),
    end: async ({ links }) => links.redis.set({}),
  },
  {
    name: "Redis 0.8 s late, which is in time for each command, but not for all of a request",
    begin: async ({ links }) => links.redis.set({ delayMs: 400 }),
    end: async ({ links }) => links.redis.set({}),
    serves: true,
  },
  {
    name: "replies of Redis lost",
    begin: async ({ links }) => links.redis.set({ lost: "replies" }),
    end: async ({ links }) => links.redis.set({}),
  },
]

const world = ownWorld()

test.for(faults)(
  "P11: $name: typed refusals within 5 s on every route, and all heals by itself",
  { timeout: 90_000 },
  async (fault, { annotate }) => {
    await annotate(await suffer(world(), fault))
  },
)
