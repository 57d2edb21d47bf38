/** P11: PostgreSQL killed, full, out of connections or read-only. */
import { ownWorld, suffer, type Fault } from "../kit/dependencies.ts"
import { test } from "../kit/test.ts"

let freeDisk: (() => Promise<void>) | undefined
const faults: Fault[] = [
  { name: "PostgreSQL killed", begin: ({ postgres }) => postgres.kill(), end: ({ postgres }) => postgres.start() },
  {
    name: "PostgreSQL out of connections",
    async begin({ postgres }) {
      await postgres.sql`ALTER ROLE app CONNECTION LIMIT 0`
      await postgres.disconnectAll()
    },
    end: ({ postgres }) => postgres.sql`ALTER ROLE app CONNECTION LIMIT -1`,
  },
  {
    name: "PostgreSQL read-only",
    async begin({ postgres }) {
      await postgres.sql`ALTER DATABASE app SET default_transaction_read_only = on`
      await postgres.disconnectAll()
    },
    end: ({ postgres }) => postgres.sql`ALTER DATABASE app RESET default_transaction_read_only`,
  },
  {
    name: "PostgreSQL's disk full",
    async begin({ postgres }) {
      freeDisk = await postgres.fillDisk!()
    },
    end: () => freeDisk!(),
    serves: true,
    impossible: ({ postgres }) => postgres.fillDisk === undefined,
  },
]

const world = ownWorld(160)

test.for(faults)(
  "P11: $name: typed refusals within 5 s on every route, and all heals by itself",
  { timeout: 90_000 },
  async (fault, { annotate, skip }) => {
    if (fault.impossible?.(world())) skip("this user may not mount a file system")
    await annotate(await suffer(world(), fault))
  },
)
