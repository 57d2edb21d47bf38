import { serverActor } from "../../actors/server.ts"
import { severityPoints, type AutomodRule } from "../../contract/communities/automod.ts"
import { fail, Failure, unavailable } from "../../contract/core/errors.ts"
import { success, type Snowflake } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"
import type { routes } from "../../contract/operators/automod.ts"
import { backendOf, consequencesOf, excerpt, judge } from "../../domain/communities/automod.ts"
import { checkedActions, checkedConfig, isRuleType } from "../../domain/communities/automod-rules.ts"
import type { ScoresByBackend } from "../../domain/communities/automod-match.ts"
import { recentPost } from "../../domain/communities/automod-spam.ts"
import { hasPattern, isTextRule } from "../../domain/communities/automod-texts.ts"
import type { Classifiers } from "../../integrations/classifiers.ts"
import type { ClassifierSettingsStore } from "../../integrations/classifier-settings.ts"
import type { TextJudge } from "../../integrations/text-judge.ts"
import { newRule, rulePatch, shownRules } from "../communities/automod.ts"
import type { Call, Handlers } from "../server/handlers.ts"
import type { Http, Uses } from "../shared/http.ts"

type Needs = Http<"automod"> &
  Uses<{
    readonly classifierSettings: Pick<ClassifierSettingsStore, "shown" | "change" | "inForce">
    readonly classifiers: Pick<Classifiers, "ask">
    readonly texts: Pick<TextJudge, "find" | "measure">
  }>

/** Auto-moderation as operators see it: the rules of every server, the classifiers, and a place to try rules out. */
export function operatorAutomod({ ask, storage, clock, integrations }: Needs): Handlers<typeof routes> {
  const { classifierSettings, classifiers, texts } = integrations

  async function serverOf(rule_id: Snowflake): Promise<Snowflake> {
    const server = await storage.automod.serverOf(rule_id)
    if (server === undefined) throw fail("operator_rule_not_found")
    return server
  }

  /** The rule, or its server, may be gone by the time. */
  async function unlessGone<T>(asked: Promise<T>): Promise<T> {
    try {
      return await asked
    } catch (error) {
      if (error instanceof Failure && goneCodes.has(error.code)) throw fail("operator_rule_not_found")
      throw error
    }
  }

  return {
    async listOperatorAutomodRules({ query: { server_id }, operator }) {
      const rules = await ask(serverActor, server_id, { type: "listAutomodRules", user: operator.id, isOperator: true })
      return shownRules(storage, server_id, rules)
    },

    async createOperatorAutomodRule({ body: { server_id, ...input }, operator }) {
      const by = { user: operator.id, isOperator: true }
      await ask(serverActor, server_id, { type: "listAutomodRules", ...by })
      const rule = newRule(input)
      const made = await ask(serverActor, server_id, { type: "createAutomodRule", ...by, rule })
      return { ...made, unjudged: null }
    },

    async editOperatorAutomodRule({ params: { rule_id }, body, operator }) {
      const server_id = await serverOf(rule_id)
      const by = { user: operator.id, isOperator: true, rule_id }
      const { rule_type } = await unlessGone(ask(serverActor, server_id, { type: "readAutomodRule", ...by }))
      const patch = rulePatch(rule_type, body)
      const edited = await unlessGone(ask(serverActor, server_id, { type: "editAutomodRule", ...by, patch }))
      return (await shownRules(storage, server_id, [edited]))[0]!
    },

    async deleteOperatorAutomodRule({ params: { rule_id }, operator }) {
      const server_id = await serverOf(rule_id)
      const by = { user: operator.id, isOperator: true, rule_id }
      await unlessGone(ask(serverActor, server_id, { type: "deleteAutomodRule", ...by }))
      return success
    },

    getAutomodSettings: () => classifierSettings.shown(),

    setAutomodSettings: ({ body, trail }) => {
      // The names alone: what is in them may be secret.
      trail.result = { classifiers: Object.keys(body.ai ?? {}) }
      return classifierSettings.change(body)
    },

    testAutomodRule: call => tried(call),
  }

  async function tried({ body, operator }: Call<(typeof routes)["testAutomodRule"]>) {
    const { rule_type, text, recent } = body
    if (!isRuleType(rule_type)) throw fail("invalid_automod_type")
    const now = clock()
    const actions = checkedActions(body.actions)
    const rule: AutomodRule = { ...draft, rule_type, config: checkedConfig(rule_type, body.config), actions }
    const payers = { owner: operator.id, author: operator.id }
    if (hasPattern(rule)) await requireSound(rule, payers)
    const question = { ...payers, content: text, text: undefined, rules: [rule], known: new Map(), asked: 0 }
    // In a thread, as those of members: a pattern takes none of this worker's time.
    const { verdicts } = isTextRule(rule_type) ? await texts.find(operator.id, question) : { verdicts: new Map() }
    const scores = rule_type === "ai_moderation" ? await scoresOf(rule, text, payers) : {}
    const judged = judge([rule], {
      content: text,
      channel_id: "0",
      roles: [],
      recent: recent.map((said, at) => recentPost(String(at), now, said)),
      classifiers: [],
      scores,
      verdicts,
      isLast: true,
      now,
    })
    const [broken] = judged.broken
    const { isRefused } = consequencesOf(judged.broken)
    return {
      is_broken: broken !== undefined,
      matched_content: broken ? excerpt(broken.matched) : null,
      severity: broken?.severity ?? null,
      points: broken ? severityPoints[broken.severity] : 0,
      metadata: { ...broken?.metadata },
      is_refused: isRefused,
      actions: broken ? actions : [],
      unjudged: judged.unjudged[0]?.reason ?? null,
      scores: rule_type === "ai_moderation" ? (scores[backendOf(rule)]?.categories ?? null) : null,
    }
  }

  async function requireSound(rule: AutomodRule, payers: { owner: string; author: string }): Promise<void> {
    const found = await texts.measure(payers.owner, payers, [rule])
    if (!found) throw unavailable("auto-moderation is busy")
    const [measured] = found
    if (typeof measured === "object")
      throw fail("invalid_automod_config", { message: `Invalid config.${measured.fault}` })
    if (measured! > limits.automod.patternSizePerServer)
      throw fail("invalid_automod_config", { message: "Invalid config.patterns: are too large together" })
  }

  async function scoresOf(
    rule: AutomodRule,
    text: string,
    payers: { owner: string; author: string },
  ): Promise<ScoresByBackend> {
    const settings = await classifierSettings.inForce()
    const backend = backendOf(rule)
    if (!settings.classifiers[backend]) throw fail("no_classifier")
    const answer = await classifiers.ask(backend, settings, text, payers)
    return typeof answer === "object" ? { [backend]: answer } : {}
  }
}

const goneCodes: ReadonlySet<string> = new Set(["automod_rule_not_found", "server_not_found"])

/** A rule of no server. */
const draft = {
  id: "0",
  server_id: "0",
  name: "draft",
  applied_roles: [],
  exempt_roles: [],
  exempt_channels: [],
  priority: 0,
  check_all: false,
  enabled: true,
  created_at: 0,
  updated_at: 0,
  created_by: "0",
  updated_by: "0",
} as const satisfies Partial<AutomodRule>
