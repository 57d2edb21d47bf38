import { z } from "zod"
import {
  AutomodAction,
  AutomodRuleInput,
  AutomodRulePatch,
  AutomodRuleView,
  refused,
  severities,
  unjudgedReasons,
} from "../communities/automod.ts"
import { AutomodSettings, AutomodSettingsPatch } from "../communities/automod-settings.ts"
import { sample } from "../core/examples.ts"
import { Snowflake, SnowflakeInput, Success, text } from "../core/fields.ts"
import { limits } from "../core/limits.ts"
import { defineRoute } from "../core/registry.ts"
import { RowId } from "./fields.ts"

const byRule = z.object({ rule_id: RowId })
const keeps = ["name", "rule_type", "priority", "check_all", "enabled"]

export const listOperatorAutomodRules = defineRoute({
  method: "GET",
  path: "/admin/automod/rules",
  mount: "operators",
  summary: "List the auto-moderation rules of a server, in the order in which they are checked",
  tag: "Operators",
  auth: "operator",
  query: z.object({ server_id: Snowflake }),
  reply: z.array(AutomodRuleView),
  fails: ["server_not_found"],
})

export const createOperatorAutomodRule = defineRoute({
  method: "POST",
  path: "/admin/automod/rules",
  mount: "operators",
  summary: "Create a rule in a server. It acts with the operator's power: on everybody who is not exempt",
  tag: "Operators",
  auth: "operator",
  trail: { keeps, target: "server_id" },
  body: AutomodRuleInput.extend({ server_id: SnowflakeInput }).meta({ id: "OperatorAutomodRuleCreateRequest" }),
  example: {
    server_id: sample.server,
    name: "No slurs",
    rule_type: "keyword",
    config: { keywords: ["badword"] },
    actions: [{ action_type: "delete_message", reason: "Mind your words" }],
  },
  reply: AutomodRuleView,
  fails: ["server_not_found", "invalid_automod_type", ...refused],
})

export const editOperatorAutomodRule = defineRoute({
  method: "PATCH",
  path: "/admin/automod/rules/:rule_id",
  mount: "operators",
  summary: "Change a rule. Its type and its server cannot change",
  tag: "Operators",
  auth: "operator",
  trail: { keeps },
  params: byRule,
  body: AutomodRulePatch,
  example: { name: "No slurs", enabled: false },
  reply: AutomodRuleView,
  fails: ["operator_rule_not_found", ...refused],
})

export const deleteOperatorAutomodRule = defineRoute({
  method: "DELETE",
  path: "/admin/automod/rules/:rule_id",
  mount: "operators",
  summary: "Delete a rule. Its recorded violations stay",
  tag: "Operators",
  auth: "operator",
  params: byRule,
  reply: Success,
  fails: ["operator_rule_not_found"],
})

export const getAutomodSettings = defineRoute({
  method: "GET",
  path: "/admin/automod/config",
  mount: "operators",
  summary: "Read whether rules are evaluated, and the classifiers. Keys are hidden",
  tag: "Operators",
  auth: "operator",
  reply: AutomodSettings,
  fails: [],
})

export const setAutomodSettings = defineRoute({
  method: "PUT",
  path: "/admin/automod/config",
  mount: "operators",
  summary: "Switch all evaluation on or off, and set up classifiers. It takes effect everywhere within a second",
  tag: "Operators",
  auth: "operator",
  trail: { keeps: ["enabled"] },
  body: AutomodSettingsPatch,
  example: { enabled: true, ai: { custom: { endpoint_url: sample.classifier, threshold: 0.6 }, openai: null } },
  reply: AutomodSettings,
  fails: ["invalid_automod_settings"],
})

export const testAutomodRule = defineRoute({
  method: "POST",
  path: "/admin/automod/test",
  mount: "operators",
  summary: "Try a rule on a text: nothing is stored, and nobody is told. A classifier is asked as a message would be",
  tag: "Operators",
  auth: "operator",
  trail: { keeps: ["rule_type"], target: "rule_type" },
  body: z
    .object({
      rule_type: AutomodRuleInput.shape.rule_type,
      config: AutomodRuleInput.shape.config,
      actions: AutomodRuleInput.shape.actions.nullish().transform(value => value ?? [{ action_type: "log_only" }]),
      text: text(1, limits.messageCharacters),
      recent: z
        .array(text(1, limits.messageCharacters))
        .max(limits.automod.postsRemembered)
        .nullish()
        .transform(value => value ?? [])
        .describe("Texts that the author has sent in the same channel within this second, for `message_spam`"),
    })
    .meta({ id: "AutomodTestRequest" }),
  example: { rule_type: "keyword", config: { keywords: ["badword"] }, text: "What a badword" },
  reply: z
    .object({
      is_broken: z.boolean(),
      matched_content: z.string().nullable(),
      severity: z.enum(severities).nullable(),
      points: z.int().describe("What the author would lose of their reputation"),
      metadata: z.record(z.string(), z.unknown()),
      is_refused: z.boolean().describe("Whether the message would be refused, or deleted where a classifier judges it"),
      actions: z.array(AutomodAction).describe("What would be done"),
      unjudged: z.enum(unjudgedReasons).nullable().describe("Why there is no verdict; the message would pass"),
      scores: z
        .record(z.string(), z.number())
        .nullable()
        .describe("What a classifier said, by category; null: none was asked, or it gave no answer"),
    })
    .meta({ id: "AutomodTestResponse" }),
  fails: ["invalid_automod_type", "invalid_automod_config", "invalid_automod_action", "no_classifier"],
})

export const routes = {
  listOperatorAutomodRules,
  createOperatorAutomodRule,
  editOperatorAutomodRule,
  deleteOperatorAutomodRule,
  getAutomodSettings,
  setAutomodSettings,
  testAutomodRule,
}
