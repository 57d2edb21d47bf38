import { parentPort } from "node:worker_threads"
import { compiledRule, judgeText, measuredPatterns, type CompiledRule } from "../domain/communities/automod-texts.ts"
import { excerpt } from "../domain/communities/automod.ts"
import type { TextVerdict } from "../domain/communities/automod-match.ts"
import { budgetMs, type PatternTask, type TextTask, type TextResult } from "./text-task.ts"

/**
 * The thread that judges texts and measures patterns: see `text-judge.ts`, which says what it has to remember and ends it
 * when it takes too long.
 */

const compiled = new Map<number, CompiledRule>()
const port = parentPort!

port.on("message", (task: TextTask | PatternTask) => {
  const since = performance.now()
  const result = "measure" in task ? { found: task.measure.map(measuredPatterns) } : judged(task)
  port.postMessage({ id: task.id, ...result, tookMs: performance.now() - since } satisfies TextResult)
})

function judged({ content, text, rules, forget }: TextTask): Pick<TextResult<TextVerdict>, "found" | "steps"> {
  for (const key of forget) compiled.delete(key)
  const until = performance.now() + budgetMs
  const known = rules.map(([key, rule]) => {
    const kept = compiled.get(key)
    if (kept) return kept
    const made = compiledRule(rule!)
    compiled.set(key, made)
    return made
  })
  const found = judgeText({ content, text }, known, () => performance.now() > until).map(shortened)
  return { found, steps: known.map(({ steps }) => steps(0)) }
}

/** What was found can be all of the message; no more of it is kept than this. */
function shortened(verdict: TextVerdict): TextVerdict {
  return verdict !== null && "matched" in verdict ? { ...verdict, matched: excerpt(verdict.matched) } : verdict
}
