import { pushMessage, type notifyMentioned as job } from "../contract/core/jobs.ts"
import type { z } from "zod"
import { notificationDefaultOf, notificationsOutside } from "../actors/shared/notification-levels.ts"
import { userActor } from "../actors/user.ts"
import { limits } from "../contract/core/limits.ts"
import { shortened } from "../domain/communities/automod.ts"
import { mentionTitles, type MentionKind } from "../domain/messages/mentions.ts"
import { holdsIn } from "../domain/core/permissions.ts"
import { firstIdAt } from "../domain/core/snowflake.ts"
import type { MessageState } from "../domain/messages/messages.ts"
import type { Mentionable } from "../storage/messages/mentions.ts"
import { eachConcurrently } from "../std/each-concurrently.ts"
import { Deferral, unlessGone, type JobTools } from "./processor.ts"
import { maxConcurrent, pageRows, type Sweep } from "./sweep.ts"

/** Members of one look; homes asked at a time. */
const page = 1_000
const maxConcurrentAsks = 8
/**
 * Jobs of a process that notify many members at a time, one for each server. Other jobs find
 * capacity.
 */
const maxMassNotifications = 4
/** One statement deletes so many: short enough for its time-out. */
const batchSize = 5_000
/** Homes that may refuse before the job stops: no single one keeps the others from being told. */
const maxRefusals = 50

type Call = z.output<(typeof job)["data"]>

/**
 * Notifies everybody whom a message mentions and who may see it. It may start again at any point:
 * the rows say who was notified, and the index of notifications ignores a second one of the same
 * message.
 */
export async function notifyMentioned(tools: JobTools, call: Call, size = page): Promise<void> {
  const { massNotifications } = tools.running
  const isCrowd = call.everyone || call.here || call.roles.length > 0
  if (!isCrowd || call.server_id === null) return notify(tools, call, size)
  if (massNotifications.has(call.server_id) || massNotifications.size >= maxMassNotifications)
    throw new Deferral("others are calling everybody")
  massNotifications.add(call.server_id)
  try {
    await notify(tools, call, size)
  } finally {
    massNotifications.delete(call.server_id)
  }
}

async function notify(tools: JobTools, call: Call, size: number): Promise<void> {
  const { storage, signal, ask } = tools
  const { channel_id, message_id } = call
  const whom = { users: call.users, roles: call.roles, isAll: call.everyone || call.here }
  const refusals: unknown[] = []
  for (let after: string | undefined = "0"; after !== undefined;) {
    signal.throwIfAborted()
    // Read again for each page: the message may be deleted, or hidden from some, meanwhile.
    const found = await messageOf(tools, call, after === "0")
    if (!found) break
    const { message, channel, where, maySee } = found
    const about = { server_id: call.server_id, channel_id, message_id, author_id: message.author_id }
    const looked = await storage.mentions.called(about, whom, { after, limit: size })
    const called = await calledOf(
      tools,
      call,
      looked.filter(one => !one.is_left_out && maySee(one)),
    )
    const told: string[] = []
    await eachConcurrently(called, maxConcurrentAsks, signal, async ([{ user_id, has_read }, kind]) => {
      const of = noticeOf(message, kind, channel)
      try {
        const asked = ask(userActor, user_id, {
          type: "notify",
          of,
          where,
          about: { channel_id, message_id },
          isRead: has_read,
        })
        const noting = asked.then(notice => {
          if (notice && !has_read) told.push(user_id)
        })
        await unlessGone("user_not_found", noting)
      } catch (error) {
        refusals.push(error)
        if (signal.aborted || refusals.length > maxRefusals) throw error
      }
    })
    // In conversations outside servers every message is pushed as such.
    if (told.length > 0 && call.server_id !== null) {
      const pushed = { server_id: call.server_id, channel_id, message_id, users: told, is_mention: true }
      await tools.push.add(pushMessage.at(pushed, { key: `pushes:${message_id}:${told[0]}` }))
    }
    // A user who read it while they were being notified had nothing to mark: their reading found no
    // notification.
    const unread = called.flatMap(([{ user_id, has_read }]) => (has_read ? [] : [user_id]))
    const read = unread.length === 0 ? [] : await storage.mentions.readBy(channel_id, message_id, unread)
    await eachConcurrently(read, maxConcurrentAsks, signal, user =>
      unlessGone("user_not_found", ask(userActor, user, { type: "readMentions", channel_id, upto: message_id })),
    )
    after = looked.length < size ? undefined : looked.at(-1)!.user_id
  }
  if (refusals.length > 0) throw refusals[0]
  // Who was told while it was deleted, or was one of too many then, holds its text no longer than
  // this.
  while ((await storage.mentions.purgeGone(channel_id, message_id, batchSize)) === batchSize) signal.throwIfAborted()
  await storage.mentions.end(channel_id, message_id)
}

/** The message where it stands, and who may see it; undefined: it is gone, or its channel is. */
async function messageOf(tools: JobTools, { server_id, channel_id, message_id }: Call, isFirst: boolean) {
  const { storage } = tools
  const [found, rules, facts] = await Promise.all([
    storage.messages.find(channel_id, [message_id]),
    server_id === null ? undefined : rulesIn(tools, server_id, channel_id, isFirst),
    server_id === null ? undefined : storage.servers.find(server_id),
  ])
  const message = found.get(message_id)
  if (!message || (server_id !== null && !(rules && facts))) return undefined
  return {
    message,
    channel: rules?.name,
    where: { ...(facts ? notificationDefaultOf(facts) : notificationsOutside), channel_id },
    maySee: (member: Mentionable) => !rules || holdsIn(rules, rules.overrides, member, "channels.view"),
  }
}

/**
 * Most jobs have one page: they load the server together with others that are about it. Further
 * pages read no other channel.
 */
async function rulesIn({ storage, outlines }: JobTools, server_id: string, channel_id: string, isFirst: boolean) {
  if (!isFirst) return storage.servers.rulesIn(server_id, channel_id)
  const server = await outlines.load(server_id)
  const known = server?.channels.get(channel_id)
  return known && { ...server!, name: known.channel.name, overrides: known.overrides }
}

/** How each of them is mentioned. Who is online is asked only where that alone decides. */
async function calledOf(
  { presences }: JobTools,
  { users, roles, everyone, here }: Call,
  people: readonly Mentionable[],
): Promise<[Mentionable, MentionKind][]> {
  const named = new Set(users)
  const kindOf = ({ user_id, roles: held }: Mentionable): MentionKind => {
    if (named.has(user_id)) return "user"
    if (held.some(role => roles.includes(role))) return "role"
    return everyone ? "everyone" : "here"
  }
  const called = people.map(person => [person, kindOf(person)] as [Mentionable, MentionKind])
  if (!here || everyone) return called
  const present = await presences.of(called.flatMap(([{ user_id }, kind]) => (kind === "here" ? [user_id] : [])))
  return called.filter(([{ user_id }, kind]) => kind !== "here" || present.has(user_id))
}

function noticeOf(message: MessageState, kind: MentionKind, channel: string | undefined) {
  const { id, channel_id, server_id, author_id, author_username, content } = message
  const place = channel === undefined ? "" : ` in #${channel}`
  return {
    type: "mention",
    title: mentionTitles[kind],
    content: `${author_username} mentioned ${kind === "role" ? "your role" : kind === "user" ? "you" : `@${kind}`}${place}`,
    content_preview: content === null ? null : shortened(content, limits.previewCharacters),
    link: `/channels/${server_id ?? "@me"}/${channel_id}/${id}`,
    sender_id: author_id,
  }
}

/**
 * Mentions whose job was lost, or is late. What is deferred, or refused by a home, the next run
 * looks at again.
 */
export const sweeps: readonly Sweep[] = [
  tools => {
    let after = "0"
    return async beforeS => {
      const due = await tools.storage.mentions.due(after, firstIdAt(beforeS * 1000), pageRows)
      after = due.length < pageRows ? "0" : due.at(-1)!.message_id
      const errors: unknown[] = []
      await eachConcurrently(due, maxConcurrent, tools.signal, async call => {
        try {
          await notifyMentioned(tools, call)
        } catch (error) {
          if (!(error instanceof Deferral)) errors.push(error)
        }
      })
      if (errors.length > 0) throw errors[0]
    }
  },
]
