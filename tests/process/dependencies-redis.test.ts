/** P11: Redis killed, out of memory, a replica, or empty. */
import { ownWorld, suffer, type Fault } from "../kit/dependencies.ts"
import { test } from "../kit/test.ts"

const faults: Fault[] = [
  { name: "Redis killed", begin: ({ redis }) => redis.kill(), end: ({ redis }) => redis.start() },
  {
    name: "Redis out of memory",
    begin: ({ redis }) => redis.command("CONFIG", "SET", "maxmemory", "1"),
    end: ({ redis }) => redis.command("CONFIG", "SET", "maxmemory", "0"),
  },
  {
    name: "Redis a read-only replica",
    begin: ({ redis }) => redis.command("REPLICAOF", "127.0.0.1", "1"),
    end: ({ redis }) => redis.command("REPLICAOF", "NO", "ONE"),
  },
  {
    name: "Redis killed, its memory lost",
    begin: ({ redis }) => redis.kill(),
    end: ({ redis }) => redis.startEmpty(),
    forgets: true,
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
