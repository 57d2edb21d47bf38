/** Operators of a test, and what they call. */
import { argon2id, hash } from "argon2"
import { hashSecret, newSecret } from "../../src/cluster/tokens.ts"
import type { TrailEntry } from "../../src/contract/operators/trail.ts"
import type { Cluster } from "./cluster.ts"
import { clientAt, type Endpoint, type Starling } from "./person.ts"

/** An operator with a session, as it is after their sign-in. */
export interface TestOperator {
  readonly id: string
  readonly name: string
  readonly token: string
  /** REST as this operator. */
  on(endpoint: Endpoint): Starling
  /** What the trail has of them, the newest first. */
  trail(endpoint: Endpoint): Promise<TrailEntry[]>
}

/** Of a password that nobody knows. */
const passwordHash = hash(newSecret(), { type: argon2id, memoryCost: 1_024, timeCost: 2, parallelism: 1 })

/** Plants the account and the session: to sign in is a story of its own. */
export async function newOperator(
  cluster: Pick<Cluster, "sql" | "newName">,
  { lastsSeconds = 3_600 }: { lastsSeconds?: number } = {},
): Promise<TestOperator> {
  const name = cluster.newName("operator")
  const token = newSecret()
  const [row] = await cluster.sql<{ id: string }[]>`
    WITH made AS (INSERT INTO operators (name, password_hash) VALUES (${name}, ${await passwordHash}) RETURNING id)
    INSERT INTO operator_sessions (token_hash, operator_id, expires_at, address)
    SELECT ${hashSecret(token)}, id, extract(epoch FROM now())::bigint + ${lastsSeconds}, '127.0.0.1' FROM made
    RETURNING operator_id::text AS id`
  const on = (endpoint: Endpoint) => clientAt(endpoint, token)
  return {
    id: row!.id,
    name,
    token,
    on,
    trail: endpoint => on(endpoint).listTrail({ operator: name, limit: "200" }),
  }
}
