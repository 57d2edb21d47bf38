import { AnnouncedPresences } from "../cluster/presences.ts"
import type { Snowflake } from "../contract/core/fields.ts"
import type { Measured, TextAnswer, TextQuestion, TextRule } from "../domain/communities/automod-texts.ts"
import type { PresenceChange } from "../domain/core/presences.ts"
import { shardOf } from "../domain/core/snowflake.ts"
import { channelActor } from "./channel.ts"
import { patternLookup, type PatternAnswer, type PatternQuestion } from "./communities/automod.ts"
import { TemporaryMembers } from "./communities/temporary-members.ts"
import { directActor } from "./direct.ts"
import { textLookup } from "./messages/automod-judging.ts"
import {
  createShardParts,
  hostShards,
  type ShardHost,
  type ShardHostOptions,
  type ShardParts,
} from "../runtime/host-shards.ts"
import type { ClusterInside } from "../runtime/join-cluster.ts"
import type { Storage } from "../storage/storage.ts"
import { serverActor } from "./server.ts"
import { Presences, type PresenceTiming } from "./social/presences.ts"
import { userActor } from "./user.ts"

export interface ActorHostOptions extends Omit<
  ShardHostOptions,
  "actors" | "source" | "observers" | "extensions" | "lookups"
> {
  readonly storage: Storage
  /** Judges texts by the rules of a server, outside of turns. */
  readonly texts: {
    find(server: Snowflake, question: TextQuestion): Promise<TextAnswer>
    /** What their patterns are made of; undefined: there is no time for it. */
    measure(
      server: Snowflake,
      payers: Pick<TextQuestion, "owner" | "author">,
      rules: readonly TextRule[],
    ): Promise<readonly Measured[] | undefined>
  }
  /**
   * What others see of users has changed: of those who concern this worker's sessions. May come
   * twice, and not at all.
   */
  readonly onPresences: (changes: readonly PresenceChange[]) => void
  readonly presence: PresenceTiming
}

/** What the actors of a web worker consist of, with what follows who is there. */
export interface ActorParts extends ShardParts {
  readonly presences: Presences
  readonly temporaryMembers: TemporaryMembers
}

/** Makes the parts. `hostActors` runs them. */
export function createActorParts(
  cluster: ClusterInside,
  { storage, texts, onPresences, presence, ...options }: ActorHostOptions,
): ActorParts {
  const { shards, router } = cluster
  const { keys, topology, clock, log, metrics } = cluster.options
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
    cluster,
    host: {
      shards,
      shard: number => shards.get(number),
      release: (worker, shard, homes) => parts.host.release(worker, shard, homes),
    },
    store: storage.presences,
    announced: new AnnouncedPresences(cluster.connections.log, keys),
    temporaryMembers,
    deliver: onPresences,
    timing: presence,
    clock,
    log,
    metrics,
  })
  const parts: ShardParts = createShardParts(cluster, {
    ...options,
    source: storage,
    actors: [serverActor, channelActor, directActor, userActor],
    observers: [presences],
    extensions: { presence: presences, signedOut: { committed: user => presences.signedOut(user) } },
    lookups: {
      [textLookup]: texts,
      [patternLookup]: {
        find: async (server, question: PatternQuestion): Promise<PatternAnswer> => ({
          rules: question.rules,
          found: await texts.measure(server, question, question.rules),
        }),
      },
    },
  })
  return { ...parts, presences, temporaryMembers }
}

/** Runs the actors of a web worker's shards. */
export function hostActors(cluster: ClusterInside, parts: ActorParts): ShardHost {
  const { presences, temporaryMembers } = parts
  cluster.signals.on("death", () => presences.noteDeath())
  cluster.signals.on("failover", () => presences.doubt())
  const hosted = hostShards(cluster, parts)
  return {
    ...hosted,
    async stop() {
      presences.stop()
      temporaryMembers.stop()
      await hosted.stop()
    },
  }
}
