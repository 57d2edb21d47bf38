import { createHash } from "node:crypto"
import { channelActor } from "../actors/channel.ts"
import type { ClassifierBackend } from "../contract/communities/automod.ts"
import { backendOf } from "../domain/communities/automod.ts"
import type { Scores } from "../domain/communities/automod-match.ts"
import { wordsIn } from "../domain/messages/messages.ts"
import { Deferral, type Processor, unlessGone } from "./processor.ts"

/** Milliseconds in which a message is judged, or never: nobody is timed out tomorrow for what they said today. */
const maxAgeMs = 300_000

/**
 * Asks the classifiers that rules need about a message as it is by now. What follows is decided, and
 * done once, by its channel (AM5).
 */
export const classifyMessage: Processor<"classifyMessage"> = async ({ ask, storage, classifiers, now }, job) => {
  const { server_id, channel_id, message_id, author_id, rule_ids, since } = job
  const { isOff, classifiers: known } = await classifiers.inForce()
  if (isOff) return
  const [messages, rules] = await Promise.all([
    storage.messages.find(channel_id, [message_id]),
    storage.automod.rules(server_id),
  ])
  const found = messages.get(message_id)
  const backends = new Set(
    rules
      .filter(rule => rule.enabled && rule.rule_type === "ai_moderation" && rule_ids.includes(rule.id))
      .map(backendOf)
      .filter(backend => known[backend] !== undefined),
  )
  if (!found || backends.size === 0) return
  const content = wordsIn(found)
  const payers = { owner: job.owner_id, author: author_id }
  const isOver = now() - since > maxAgeMs
  const answers = isOver
    ? []
    : await Promise.all(
        [...backends].map(async backend => [backend, await classifiers.ask(backend, content, payers)] as const),
      )
  if (answers.some(([, answer]) => answer === undefined)) throw new Deferral()
  const scores = answers.filter((one): one is readonly [ClassifierBackend, Scores] => typeof one[1] === "object")
  const isMissed = scores.length < backends.size
  if (isMissed) classifiers.count(isOver ? "late" : "refused")
  const judged = `${message_id}:${createHash("sha256").update(content).digest("base64url").slice(0, 22)}`
  await unlessGone(
    "channel_not_found",
    ask(channelActor, channel_id, {
      type: "applyScores",
      message_id,
      author_id,
      content,
      judged,
      rule_ids,
      scores: Object.fromEntries(scores),
      isMissed,
    }),
  )
}
