import { userActor } from "../actors/user.ts"
import { limits } from "../contract/core/limits.ts"
import { holdsIn } from "../domain/core/permissions.ts"
import { type Processor, unlessGone } from "./processor.ts"
import { forgetting, type Sweep } from "./sweep.ts"

/** Candidates that are looked at: not everybody who may moderate sees the channel. */
const looked = 500

const moderates = ["server.automod", "messages.manage", "administrator"] as const

/**
 * Notifies members who may write the rules or manage messages, and who see the channel: the notice
 * contains what was written there.
 */
export const alertModerators: Processor<"alertModerators"> = async (
  { ask, storage, outlines, signal },
  { server_id, violation_id },
) => {
  const [violation, server] = await Promise.all([
    storage.automod.violation(server_id, violation_id),
    outlines.load(server_id),
  ])
  const overrides = violation && server?.channels.get(violation.channel_id)?.overrides
  if (!violation || !server || !overrides) return
  const moderating = [...server.roles].flatMap(([id, { permissions }]) =>
    moderates.some(permission => permissions.has(permission)) ? [id] : [],
  )
  const members = await storage.automod.membersWith(server_id, server.owner_id, moderating, looked)
  const told = members
    .filter(member => holdsIn(server, overrides, member, "channels.view"))
    .slice(0, limits.automod.moderatorsAlerted)
  const { message_id } = violation.metadata
  const of = {
    type: "system",
    title: "Auto-moderation",
    content: `${violation.username} broke the rule "${violation.rule_name}"`,
    content_preview: violation.matched_content,
    link: typeof message_id === "string" ? `/channels/${server_id}/${violation.channel_id}/${message_id}` : null,
    sender_id: violation.user_id,
  }
  for (const { user_id } of told) {
    signal.throwIfAborted()
    // Run again soon after, the job is answered as it was.
    const requestId = `alert:${violation_id}:${user_id}`
    await unlessGone(
      "user_not_found",
      ask(userActor, user_id, { type: "notify", of }, { requestId }).then(() => {}),
    )
  }
}

/** For which it is noted who broke a rule of auto-moderation. */
const violationsKeptS = limits.automod.violationDays * 86_400

export const sweeps: readonly Sweep[] = [
  forgetting(({ automod }, beforeS, limit) => automod.forgetOld(beforeS - violationsKeptS, limit)),
]
