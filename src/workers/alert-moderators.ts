import { userActor } from "../actors/user.ts"
import { fullReputation } from "../contract/communities/automod.ts"
import { limits } from "../contract/core/limits.ts"
import { holdsIn } from "../domain/core/permissions.ts"
import { type Processor, unlessGone } from "./processor.ts"
import { forgetting, type Sweep } from "./sweep.ts"

const moderates = ["administrator", "members.kick", "members.ban"] as const

/**
 * Notifies the owner and members who may remove others. Only those who view the channel are told
 * what was written there.
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
  const { moderatorsAlerted } = limits.automod
  const [told, reputations] = await Promise.all([
    storage.automod.membersWith(server_id, server.owner_id, moderating, moderatorsAlerted),
    storage.automod.reputations(server_id, [violation.user_id]),
  ])
  const { message_id } = violation.metadata
  const reputation = reputations.get(violation.user_id) ?? fullReputation
  const isThere = typeof message_id === "string" && !violation.actions_taken.includes("delete_message")
  const secret = { content_preview: null, link: null }
  const shown = {
    content_preview: violation.matched_content,
    link: isThere ? `/channels/${server_id}/${violation.channel_id}/${message_id}` : null,
  }
  for (const member of told.slice(0, moderatorsAlerted)) {
    const { user_id } = member
    signal.throwIfAborted()
    const of = {
      type: "system",
      title: "Auto-moderation",
      content: `${violation.username} broke the rule "${violation.rule_name}" (reputation: ${reputation} of ${fullReputation})`,
      ...(holdsIn(server, overrides, member, "channels.view") ? shown : secret),
      sender_id: violation.user_id,
    }
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
