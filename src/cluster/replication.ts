import { randomBytes } from "node:crypto"
import { Cluster, type Redis as Server } from "ioredis"
import { slotOf } from "./identity.ts"
import type { Redis } from "./redis.ts"

/** What each connection was told when it was made; before that nothing is known. */
const ids = new WeakMap<object, string>()

/** Stands for the id of a node that was not connected to yet: what is kept under it nobody finds. */
export const notKnownYet = randomBytes(6).toString("hex")

interface ServerFacts {
  readonly role?: string
  readonly master_replid?: string
}

/**
 * Learns a server's replication id each time a connection to it is made, before any command of ours goes there: after a
 * restart or a fail-over it is another one, and what was written last may be missing. A server that still copies another is
 * not taken: its id is the other's, and it would change without the connection noticing.
 */
export function followReplication(redis: Server): Server {
  // ioredis shows the INFO of its ready check to the connector alone. It can go when the client offers it to its owner.
  const { connector } = redis as unknown as { connector: { check(facts: ServerFacts): boolean } }
  const check = connector.check.bind(connector)
  connector.check = facts => {
    if (!check(facts) || (facts.role === "slave" && !redis.options.readOnly)) return false
    ids.set(redis, facts.master_replid ?? "")
    return true
  }
  return redis
}

/** A server that became a copy refuses to be written to; the one that it copies is found by connecting anew. */
export const hasBecomeCopy = (error: Error): boolean => error.message.startsWith("READONLY")

/** The replication id of the server that keeps a hash tag's keys, as it was when the connection to it was made. */
export function replicationOf(redis: Redis, tag: string): string {
  if (!(redis instanceof Cluster)) return ids.get(redis) ?? ""
  const [place] = redis.slots[slotOf(tag)] ?? []
  const node = redis.nodes("master").find(({ options }) => `${options.host}:${options.port}` === place)
  return (node && ids.get(node)) ?? notKnownYet
}

/** All that is known of who keeps what; another text after a fail-over of any server. */
export function replicationsOf(redis: Redis): string {
  if (!(redis instanceof Cluster)) return ids.get(redis) ?? ""
  const slots = new Map<string, number>()
  for (const [place] of redis.slots) if (place !== undefined) slots.set(place, (slots.get(place) ?? 0) + 1)
  const known = redis.nodes("master").map(node => {
    const place = `${node.options.host}:${node.options.port}`
    return `${place} ${ids.get(node) ?? ""} ${slots.get(place) ?? 0}`
  })
  return known.sort().join(",")
}

/** Acts when keys may be with another server than before, or with one that has lost the last writes. */
export function onNewReplication(redis: Redis, act: () => void): void {
  let known = replicationsOf(redis)
  const look = () => {
    const before = known
    known = replicationsOf(redis)
    if (known !== before) act()
  }
  if (!(redis instanceof Cluster)) return void redis.on("ready", look)
  for (const node of redis.nodes("master")) node.on("ready", look)
  redis.on("+node", (node: Server) => node.on("ready", look))
  redis.on("refresh", look)
}

/**
 * The replication id under which keys bear no mark of it. It is that of the Redis in which the first worker of the cluster
 * started, which PostgreSQL remembers; with a Redis Cluster there is none.
 */
export const homeReplicationId = (redis: Redis, remembered: (first: string) => Promise<string>): Promise<string> =>
  redis instanceof Cluster ? Promise.resolve("-") : remembered(replicationsOf(redis))
