import { notificationsOutside } from "../actors/shared/notification-levels.ts"
import { userActor } from "../actors/user.ts"
import type { Snowflake } from "../contract/core/fields.ts"
import { sendPush as sendPushJob } from "../contract/core/jobs.ts"
import { choiceKey, effectiveLevel, isNotified, noChoice } from "../domain/accounts/notification-levels.ts"
import { messageNote, testNote, type PushNote } from "../domain/messages/pushes.ts"
import type { MessageState } from "../domain/messages/messages.ts"
import type { PushTarget } from "../storage/accounts/push-subscriptions.ts"
import { eachConcurrently } from "../std/each-concurrently.ts"
import { Deferral, unlessGone, type JobTools, type Processor } from "./processor.ts"

/**
 * Web Push. It is a hint and kept nowhere: what it is about stands in the channel, in the list of
 * notifications and in the counts of what is unread. So a push may be lost with the queue, and what
 * is late is left out. It keeps:
 *   PUSH3  Nothing is pushed of a message to who has muted its place, has read it, looks at the
 *       screen, or does not want to be disturbed.
 */

/** For which a push is worth sending, and a push service keeps it. */
const ttlSeconds = 12 * 3_600
/** Until the first further try, unless the push service says when; and between the last ones. */
const firstWaitMs = 5_000
const minWaitMs = 1_000
const maxWaitMs = 300_000
const maxConcurrentSends = 8

/** One message, to everybody whom it notifies. Who is active reads it on the screen. */
export const pushMessage: Processor<"pushMessage"> = async (tools, job) => {
  const { storage, now, signal } = tools
  const { server_id, channel_id, message_id, is_mention } = job
  const seconds = Math.floor(now() / 1000)
  const takers = await storage.pushSubscriptions.takersOf(
    job.users,
    server_id === null ? "directs" : "mentions",
    seconds,
  )
  // As for nearly every message.
  if (takers.length === 0) return
  const users = [...new Set(takers.map(({ user_id }) => user_id))]
  const wanted = server_id === null ? await wantingDirect(tools, users, channel_id, is_mention) : users
  const [message, read, present, names] = await Promise.all([
    storage.messages.find(channel_id, [message_id]),
    storage.mentions.readBy(channel_id, message_id, wanted),
    tools.presences.of(wanted),
    server_id === null ? undefined : storage.pushSubscriptions.namesOf(channel_id),
  ])
  const found = message.get(message_id)
  if (!found) return
  const left = new Set(wanted.filter(user => !read.includes(user) && !isActive(present.get(user)?.status)))
  const to = takers.filter(({ user_id }) => left.has(user_id))
  const since = now()
  await eachConcurrently(to, maxConcurrentSends, signal, async target => {
    const waitMs = await push(tools, target, noteOf(found, names, target, since))
    if (waitMs === undefined) return
    const again = { subscription_id: target.id, message: { server_id, channel_id, message_id }, since }
    // One of an hour waits for each browser: nobody fills the queue with browsers that never answer. What is not added is
    // left out, as the job would send everybody's anew.
    const key = `push:${target.id}:${Math.floor(since / 3_600_000)}`
    await tools.push.add(sendPushJob.at(again, { key, runAtMs: since + waitMs })).catch(() => {})
  })
}

/** One push to one browser: again after its push service asked for that, until it is late. */
export const sendPush: Processor<"sendPush"> = async (tools, { subscription_id, message, since }) => {
  const { storage, now } = tools
  const target = await storage.pushSubscriptions.find(subscription_id, Math.floor(now() / 1000))
  if (!target) return
  if (now() - since > ttlSeconds * 1000) return tools.push.count("late")
  const note =
    message === null ? testNote(tools.push.serverName, since) : await messageFor(tools, message, target, since)
  if (!note) return
  const waitMs = await push(tools, target, note)
  if (waitMs !== undefined)
    throw new Deferral("a push service is not ready", Math.max(waitMs, waitedLong(now() - since)))
}

/** The longer it takes, the rarer it is tried. */
const waitedLong = (waitedMs: number) => Math.min(waitedMs / 2, maxWaitMs)

const isActive = (status: string | undefined): boolean => status === "online" || status === "dnd"

async function wantingDirect(
  { storage, now }: JobTools,
  users: readonly Snowflake[],
  channel: Snowflake,
  isMention: boolean,
): Promise<Snowflake[]> {
  const { server_id, default_message_notifications } = notificationsOutside
  const wanting = await Promise.all(
    users.map(async user => {
      const choices = await storage.notificationSettings.find(user, server_id, channel)
      const near = {
        server: choices.get(choiceKey(server_id, null)) ?? noChoice,
        channel: choices.get(choiceKey(server_id, channel)) ?? noChoice,
      }
      const level = effectiveLevel(near, default_message_notifications, Math.floor(now() / 1000))
      return isNotified(level, isMention) ? [user] : []
    }),
  )
  return wanting.flat()
}

async function messageFor(
  { storage }: JobTools,
  { server_id, channel_id, message_id }: { server_id: Snowflake | null; channel_id: Snowflake; message_id: Snowflake },
  target: PushTarget,
  since: number,
): Promise<PushNote | undefined> {
  const [found, read, names] = await Promise.all([
    storage.messages.find(channel_id, [message_id]),
    storage.mentions.readBy(channel_id, message_id, [target.user_id]),
    server_id === null ? undefined : storage.pushSubscriptions.namesOf(channel_id),
  ])
  const message = found.get(message_id)
  // Hours later they may not view the channel any more: what was written stays here.
  const hides_content = target.hides_content || server_id !== null
  return message && read.length === 0 ? noteOf(message, names, { ...target, hides_content }, since) : undefined
}

const noteOf = (
  message: MessageState,
  names: { server: string; channel: string } | undefined,
  { hides_content }: PushTarget,
  at: number,
) => messageNote(message, names, { hidesContent: hides_content, at })

/** @returns after how many milliseconds it is to be tried again; undefined: it is done with */
async function push(tools: JobTools, target: PushTarget, note: PushNote): Promise<number | undefined> {
  const leftMs = ttlSeconds * 1000 - (tools.now() - note.at)
  const outcome = await tools.push.send(target, {
    text: JSON.stringify(note),
    ttlSeconds: Math.max(0, Math.floor(leftMs / 1000)),
    topic: note.tag,
  })
  tools.push.count(outcome.kind)
  if (outcome.kind === "later") return Math.max(outcome.waitMs ?? firstWaitMs, minWaitMs)
  if (outcome.kind === "refused") tools.push.noteRefusal(target.endpoint, outcome.why)
  if (outcome.kind === "gone") {
    const forgotten = tools.ask(userActor, target.user_id, { type: "unsubscribePush", subscription_id: target.id })
    // Where it cannot be forgotten now, the next push finds it gone again.
    await unlessGone("push_subscription_not_found", unlessGone("user_not_found", forgotten)).catch(() => {})
  }
  return undefined
}
