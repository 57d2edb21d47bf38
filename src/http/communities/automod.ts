import { serverActor } from "../../actors/server.ts"
import type { NewRule } from "../../actors/communities/automod.ts"
import type {
  AutomodRule,
  AutomodRuleInput,
  AutomodRulePatch,
  AutomodRuleView,
  routes,
} from "../../contract/communities/automod.ts"
import { fail } from "../../contract/core/errors.ts"
import { success, type Snowflake } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"
import { checkedActions, checkedConfig, isRuleType } from "../../domain/communities/automod-rules.ts"
import type { Handlers } from "../server/handlers.ts"
import type { Http } from "../shared/http.ts"

/**
 * What a rule says is looked into here, once it is known that its writer may write it: patterns
 * take time to compile.
 */
export const automod = ({ ask, storage }: Http<"automod">): Handlers<typeof routes> => ({
  async listAutomodRules({ params: { server_id }, caller }) {
    return shownRules(
      storage,
      server_id,
      await ask(serverActor, server_id, { type: "listAutomodRules", user: caller.user_id }),
    )
  },

  async createAutomodRule({ params: { server_id }, body, caller: { user_id: user }, reason }) {
    await ask(serverActor, server_id, { type: "requirePermission", user, permission: "server.automod" })
    const rule = newRule(body)
    return { ...(await ask(serverActor, server_id, { type: "createAutomodRule", user, reason, rule })), unjudged: null }
  },

  async editAutomodRule({ params: { server_id, rule_id }, body, caller: { user_id: user }, reason }) {
    const { rule_type } = await ask(serverActor, server_id, { type: "readAutomodRule", user, rule_id })
    const patch = rulePatch(rule_type, body)
    const edited = await ask(serverActor, server_id, { type: "editAutomodRule", user, reason, rule_id, patch })
    return (await shownRules(storage, server_id, [edited]))[0]!
  },

  async deleteAutomodRule({ params: { server_id, rule_id }, caller, reason }) {
    await ask(serverActor, server_id, { type: "deleteAutomodRule", user: caller.user_id, reason, rule_id })
    return success
  },

  async listAutomodViolations({ params: { server_id }, query, caller }) {
    await ask(serverActor, server_id, {
      type: "requirePermission",
      user: caller.user_id,
      permission: "server.automod",
    })
    const { limit = limits.defaultPageSize, before, user_id } = query
    return storage.automod.violations(server_id, { limit, before, user_id })
  },
})

/** A rule as it was sent, with its defaults, looked into. */
export function newRule(body: AutomodRuleInput): NewRule {
  const { name, rule_type } = body
  if (!isRuleType(rule_type)) throw fail("invalid_automod_type")
  return {
    name,
    rule_type,
    config: checkedConfig(rule_type, body.config),
    actions: checkedActions(body.actions),
    applied_roles: body.applied_roles ?? [],
    exempt_roles: body.exempt_roles ?? [],
    exempt_channels: body.exempt_channels ?? [],
    priority: body.priority ?? 0,
    check_all: body.check_all ?? false,
    enabled: body.enabled ?? true,
  }
}

/** What is to be changed of a rule, looked into. */
export const rulePatch = (
  rule_type: AutomodRule["rule_type"],
  { config, actions, ...others }: AutomodRulePatch,
): Partial<NewRule> => ({
  ...sent(others),
  ...(config && { config: checkedConfig(rule_type, config) }),
  ...(actions && { actions: checkedActions(actions) }),
})

/** Rules with what they have not judged. This is read from the violations: a message writes nothing for it. */
export async function shownRules(
  storage: Http<"automod">["storage"],
  server: Snowflake,
  rules: readonly AutomodRule[],
): Promise<AutomodRuleView[]> {
  const unjudged = await storage.automod.unjudged(server)
  return rules.map(rule => ({ ...rule, unjudged: unjudged.get(rule.id) ?? null }))
}

type Sent<T> = { [K in keyof T]?: Exclude<T[K], undefined> }
/** Without the keys that were not sent. */
const sent = <T extends Omit<AutomodRulePatch, "config" | "actions">>(patch: T): Sent<T> =>
  Object.fromEntries(Object.entries(patch).filter(([, value]) => value !== undefined)) as Sent<T>
