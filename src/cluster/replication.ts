import { randomBytes } from "node:crypto"
import { Cluster, type Redis as Server } from "ioredis"
import { slotOf } from "./identity.ts"
import type { Redis } from "./redis.ts"

/** What a server says of itself. */
interface ServerIdentity {
  /** Of its data: another one after a fail-over, and at times without one. */
  readonly replicationId: string
  /** Of its process. */
  readonly runId: string
}
/** What each connection was told when it was made, or since; before that nothing is known. */
const identities = new WeakMap<object, ServerIdentity>()
const idOf = (redis: object): string | undefined => identities.get(redis)?.replicationId

/** Stands for the id of a node that was not connected to yet: what is kept under it nobody finds. */
export const notKnownYet = randomBytes(6).toString("hex")

interface ServerFacts {
  readonly role?: string
  readonly master_replid?: string
  readonly run_id?: string
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
    identities.set(redis, { replicationId: facts.master_replid ?? "", runId: facts.run_id ?? "" })
    return true
  }
  return redis
}

/** A server that became a copy refuses to be written to; the one that it copies is found by connecting anew. */
export const hasBecomeCopy = (error: Error): boolean => error.message.startsWith("READONLY")

const placeOf = ({ options }: Server): string => `${options.host}:${options.port}`

/** The replication id of the server that keeps a hash tag's keys, as it was when the connection to it was made. */
export function replicationOf(redis: Redis, tag: string): string {
  if (!(redis instanceof Cluster)) return idOf(redis) ?? ""
  const [place] = redis.slots[slotOf(tag)] ?? []
  const node = redis.nodes("master").find(master => placeOf(master) === place)
  return (node && idOf(node)) ?? notKnownYet
}

/** All that is known of who keeps what; another text after a fail-over of any server. */
export function replicationsOf(redis: Redis): string {
  if (!(redis instanceof Cluster)) return idOf(redis) ?? ""
  const slots = new Map<string, number>()
  for (const [place] of redis.slots) if (place !== undefined) slots.set(place, (slots.get(place) ?? 0) + 1)
  const known = redis.nodes("master").map(node => {
    const place = placeOf(node)
    return `${place} ${idOf(node) ?? ""} ${slots.get(place) ?? 0}`
  })
  return known.sort().join(",")
}

/** Every server that holds keys of its own. */
export const mastersOf = (redis: Redis): Server[] => (redis instanceof Cluster ? redis.nodes("master") : [redis])

/** Emitted by a connection whose server has another replication id than before, though it was not made anew. */
const renamed = "replication id"

/**
 * Looks who the masters are by now. Without a fail-over, too, a master takes another replication id: when its first copy
 * comes, and when the last has been away for long; connections made before and after would look for keys in different places.
 * Those to the same process go on under the new id, others are made anew. Those that are not made before their first command
 * are made here: who would send it may wait for what the connection is told.
 * @param blocking whose reads wait under keys of the id before
 */
export async function agreeOnReplication(leading: Redis, others: readonly Redis[], blocking: Redis): Promise<void> {
  for (const connection of [leading, ...others, blocking])
    for (const master of mastersOf(connection)) if (master.status === "wait") master.connect().catch(() => {})
  const masters = readyMasters(leading)
  const asked = await Promise.allSettled(masters.map(master => newIdentityOf(master, [leading, ...others, blocking])))
  const now = new Map<string, ServerIdentity>()
  for (const [i, answer] of asked.entries()) {
    const told = answer.status === "fulfilled" ? answer.value : undefined
    if (told) now.set(placeOf(masters[i]!), told)
  }
  for (const connection of [leading, ...others, blocking]) {
    let isRenamed = false
    for (const master of readyMasters(connection)) {
      const [known, told] = [identities.get(master), now.get(placeOf(master))]
      if (!told || known?.replicationId === told.replicationId) continue
      if (connection === blocking || known?.runId !== told.runId) master.disconnect(true)
      else {
        identities.set(master, told)
        isRenamed = true
      }
    }
    if (isRenamed) connection.emit(renamed)
  }
}

/** Who a master is by now; undefined while all of the connections to it know that. Its process is asked for only if not. */
async function newIdentityOf(master: Server, connections: readonly Redis[]): Promise<ServerIdentity | undefined> {
  const replicationId = replicationIdIn(await master.info("replication"))
  const place = placeOf(master)
  const isKnown = (one: Server) => placeOf(one) !== place || idOf(one) === replicationId
  if (connections.every(connection => readyMasters(connection).every(isKnown))) return undefined
  return identityIn(await master.info())
}

const replicationIdIn = (info: string): string | undefined => /^master_replid:(\w+)/m.exec(info)?.[1]

function identityIn(info: string): ServerIdentity | undefined {
  const replicationId = replicationIdIn(info)
  const runId = /^run_id:(\w+)/m.exec(info)?.[1]
  return replicationId === undefined || runId === undefined ? undefined : { replicationId, runId }
}

const readyMasters = (redis: Redis): Server[] => mastersOf(redis).filter(({ status }) => status === "ready")

/** Acts when keys may be with another server than before, or with one that has lost the last writes. */
export function onNewReplication(redis: Redis, act: () => void): void {
  let known = replicationsOf(redis)
  const look = () => {
    const before = known
    known = replicationsOf(redis)
    if (known !== before) act()
  }
  redis.on(renamed, look)
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
