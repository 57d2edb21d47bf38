import { channelActor } from "../actors/channel.ts"
import { beginPurge } from "../actors/account-orders.ts"
import type { Party } from "../actors/social/relationships.ts"
import { serverActor } from "../actors/server.ts"
import { userActor } from "../actors/user.ts"
import type { Snowflake } from "../contract/core/fields.ts"
import { lowerOf } from "../domain/social/relationships.ts"
import { erasedTables, type PurgedAccount } from "../storage/account-deletion.ts"
import type { ReactionPlace } from "../storage/messages/reactions.ts"
import { endUploadSessionsOf } from "./assemble-upload.ts"
import { endUploadsOf } from "./delete-uploads.ts"
import { purgeMessages } from "./purge-messages.ts"
import { type JobTools, type Processor, unlessGone } from "./processor.ts"
import { ending, type Sweep } from "./sweep.ts"

/** As many as channels take back in one turn. */
const reactionBatchSize = 100
/** Rows of one statement. */
const batchSize = 500

/**
 * Ends an account for good: who it was is forgotten first, then each home that knows it is asked to
 * let it go, so that others are told, and at last the rows that nobody else decides about. Each
 * step may be repeated, and the account says that it is unfinished until the last one is done.
 */
export const purgeAccount: Processor<"purgeAccount"> = (tools, { user_id }) =>
  unlessGone("user_not_found", purge(tools, user_id, false))

async function purge(tools: JobTools, user: Snowflake, isOwnerGone: boolean): Promise<void> {
  const { ask, storage, signal } = tools
  if (!(await beginPurge(ask, user, { isOwnerGone }))) return
  const { accountDeletion } = storage

  for (const bot of await accountDeletion.botsOf(user)) {
    signal.throwIfAborted()
    await purge(tools, bot, true)
  }
  for (const server of await accountDeletion.ownedServers(user)) {
    signal.throwIfAborted()
    await unlessGone("server_not_found", ask(serverActor, server, { type: "deleteServer", user }))
  }
  for (const channel of await accountDeletion.channelsNaming(user)) {
    signal.throwIfAborted()
    await unlessGone("channel_not_found", ask(channelActor, channel, { type: "eraseOverride", target_id: user }))
  }
  for (const server of await accountDeletion.serversKnowing(user)) {
    signal.throwIfAborted()
    await unlessGone("server_not_found", ask(serverActor, server, { type: "eraseUser", user }))
  }
  await takeBackReactions(tools, user)
  await accountDeletion.eraseLeft(user)
  await sever(tools, user)
  while ((await accountDeletion.eraseExportParts(user, batchSize)) === batchSize) signal.throwIfAborted()
  await endUploadSessionsOf(tools, user)
  while ((await endUploadsOf(tools, user)) > 0) signal.throwIfAborted()
  for (const name of erasedTables)
    while ((await accountDeletion.eraseRows(name, user, batchSize)) === batchSize) signal.throwIfAborted()
  await endDeserted(tools, user)
  // A user who looked the account up before the purge began may have sent a request just now.
  await sever(tools, user)
  await ask(userActor, user, { type: "endPurge" })
}

/**
 * Tallies stand with the messages, so each channel takes back what it counted; rows of those that
 * are gone go with the others.
 */
async function takeBackReactions({ ask, storage, signal }: JobTools, user: Snowflake): Promise<void> {
  let after: ReactionPlace = { channel_id: "0", message_id: "0", emoji: "" }
  for (;;) {
    signal.throwIfAborted()
    const found = await storage.reactions.ofUser(user, after, reactionBatchSize)
    const channels = new Map<Snowflake, Omit<ReactionPlace, "channel_id">[]>()
    for (const { channel_id, ...reaction } of found)
      channels.set(channel_id, [...(channels.get(channel_id) ?? []), reaction])
    for (const [channel, reactions] of channels)
      await unlessGone("channel_not_found", ask(channelActor, channel, { type: "eraseReactions", user, reactions }))
    if (found.length < reactionBatchSize) return
    after = found.at(-1)!
  }
}

/** Conversations that nobody can read any more, with their messages. */
async function endDeserted(tools: JobTools, user: Snowflake): Promise<void> {
  const { accountDeletion } = tools.storage
  const deserted = await accountDeletion.deserted(user)
  if (deserted.length === 0) return
  await purgeMessages(tools, { channel_ids: deserted })
  await accountDeletion.eraseDirects(deserted)
}

async function sever({ ask, storage, signal }: JobTools, user: Snowflake): Promise<void> {
  for (const other of await storage.accountDeletion.related(user)) {
    signal.throwIfAborted()
    const two = { by: nobody(user), other: nobody(other) }
    await ask(userActor, lowerOf(user, other), { type: "severPair", ...two })
  }
}

/** The two users are told nothing but that there is no relationship any more. */
const nobody = (id: Snowflake): Party => ({ id, username: "", avatar_url: null, presence: null })

/** Accounts of one look. */
const lookedAt = 200
/** For so many seconds after its end a purge is looked at: upgrades are over by then. */
const doubtfulSeconds = 31 * 86_400

/**
 * During an upgrade a job worker of the version before may end a purge. It does not know the tables
 * that are new, and in those the rows stay: then the purge begins again, here. One after the
 * other, and again from the first, all that ended lately are looked at.
 */
const remains: Sweep = tools => {
  const { ask, storage, signal } = tools
  let after: PurgedAccount = { id: "0", deletion_at: 0 }
  return async beforeS => {
    const since = { id: "0", deletion_at: Math.max(after.deletion_at, beforeS - doubtfulSeconds) }
    const from = since.deletion_at > after.deletion_at ? since : after
    const found = await storage.accountDeletion.purgedAfter(from, beforeS, lookedAt)
    // One that fails does not hold up the others: it is looked at again with the next round.
    after = found.length < lookedAt ? { id: "0", deletion_at: 0 } : found.at(-1)!
    for (const { id } of found.filter(({ isLeft }) => isLeft)) {
      signal.throwIfAborted()
      const { reopened } = await ask(userActor, id, { type: "reopenPurge" })
      if (reopened) await purgeAccount(tools, { user_id: id })
    }
  }
}

export const sweeps: readonly Sweep[] = [
  ending(
    ({ accountDeletion }, beforeS, limit) => accountDeletion.due(beforeS, limit),
    (tools, user_id) => purgeAccount(tools, { user_id }),
  ),
  remains,
]
