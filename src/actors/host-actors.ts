import { AnnouncedPresences } from "../cluster/presences.ts"
import type { PresenceChange } from "../domain/core/presences.ts"
import { shardOf } from "../domain/core/snowflake.ts"
import { channelActor } from "./channel.ts"
import { TemporaryMembers } from "./communities/temporary-members.ts"
import { directActor } from "./direct.ts"
import { hostShards, type ShardHost, type ShardHostOptions } from "../runtime/host-shards.ts"
import type { ClusterInside } from "../runtime/join-cluster.ts"
import type { Storage } from "../storage/storage.ts"
import { serverActor } from "./server.ts"
import { Presences, type PresenceTiming } from "./social/presences.ts"
import { userActor } from "./user.ts"

export interface ActorHostOptions extends Omit<ShardHostOptions, "actors" | "source" | "observers" | "extensions"> {
  readonly storage: Storage
  /**
   * What others see of users has changed: of those who concern this worker's sessions. May come
   * twice, and not at all.
   */
  readonly onPresences: (changes: readonly PresenceChange[]) => void
  readonly presence: PresenceTiming
}

/** The actors of a web worker's shards, with what follows who is there. */
export function hostActors(
  cluster: ClusterInside,
  { storage, onPresences, presence, ...options }: ActorHostOptions,
): ShardHost {
  const { view, shards, bus, directory, router, signals } = cluster
  const { keys, topology, clock, log, metrics } = cluster.options
  const announced = new AnnouncedPresences(cluster.connections.log, keys)
  const temporaryMembers = new TemporaryMembers({
    store: storage.guildMembers,
    end: (server, user) => router.ask(serverActor, server, { type: "endTemporary", user }),
    isGone: user => {
      const shard = shards.get(shardOf(user))
      return shard !== undefined && !shard.closing && !shard.interests.has(user)
    },
    resumeWindowMs: topology.resumeWindowMs,
    clock,
    log,
  })
  const presences = new Presences({
    self: view.self.id,
    host: { shards, shard: number => shards.get(number) },
    bus,
    directory,
    store: storage.presences,
    load: numbers => announced.load(numbers),
    save: (shard, users) => announced.add(shard, users),
    forget: (shard, users) => announced.remove(shard, users),
    replace: (shard, users) => announced.replace(shard, users),
    serving: () => view.serving,
    isDead: worker => view.isDead(worker),
    onGone: users => temporaryMembers.gone(users),
    onBack: user => temporaryMembers.back(user),
    isBeingRemoved: user => temporaryMembers.isPending(user),
    deliver: onPresences,
    timing: presence,
    clock,
    log,
    metrics,
  })
  signals.on("death", () => presences.noteDeath())
  signals.on("failover", () => presences.doubt())
  const hosted = hostShards(cluster, {
    ...options,
    source: storage,
    actors: [serverActor, channelActor, directActor, userActor],
    observers: [presences],
    extensions: { presence: presences },
  })
  return {
    ...hosted,
    async stop() {
      presences.stop()
      temporaryMembers.stop()
      await hosted.stop()
    },
  }
}
