import type { Worker } from "node:worker_threads"
import { unavailable } from "../contract/core/errors.ts"
import type { Snowflake } from "../contract/core/fields.ts"
import { isUnjudged, type TextVerdict } from "../domain/communities/automod-match.ts"
import {
  threadCost,
  type Measured,
  type TextAnswer,
  type TextQuestion,
  type TextRule,
} from "../domain/communities/automod-texts.ts"
import type { Log } from "../observability/log.ts"
import type { Metrics } from "../observability/metrics.ts"
import { TextLane, type Missed, type TextLaneBounds } from "./text-lane.ts"
import { ThreadShares, type Payers } from "./thread-shares.ts"

/**
 * Judges texts by the rules of servers in threads of their own, so that nothing that a user writes
 * as a pattern or as a message holds up an event loop. What is known to take little time has a
 * thread to itself, so that it waits for nothing that takes much.
 */
export interface TextJudge {
  /** Refuses what cannot be judged because of others. */
  find(server: Snowflake, question: TextQuestion): Promise<TextAnswer>
  /**
   * What the patterns of rules are made of. It comes before the texts of the server, so that these
   * do not keep anybody from changing its rules. Undefined: there is no time for it.
   */
  measure(server: Snowflake, payers: Payers, rules: readonly TextRule[]): Promise<readonly Measured[] | undefined>
  /** Ends the threads; what waits is answered. */
  stop(): Promise<void>
}

export interface TextJudgeOptions {
  readonly log: Log
  readonly metrics: Pick<Metrics, "automod">
  readonly bounds?: TextLaneBounds
  readonly open?: () => Worker
}

const usualBounds: TextLaneBounds = {
  waitingOfServer: 16,
  waitingOfPayer: 64,
  waiting: 256,
  waitMs: 1_000,
  taskMs: 2_000,
  rules: 1_000,
  ruleCharacters: 524_288,
}

/** What a text may take at worst to be light. */
const lightNanoseconds = 20_000_000

class ThreadedTextJudge implements TextJudge {
  readonly #metrics: Pick<Metrics, "automod">
  readonly #light: TextLane
  readonly #heavy: TextLane
  /** Steps for each character, by config, of rules that a thread has met: they are replaced, never changed. */
  readonly #steps = new WeakMap<object, number>()

  constructor({ log, metrics, bounds = usualBounds, open }: TextJudgeOptions) {
    this.#metrics = metrics
    const shares = new ThreadShares()
    this.#light = new TextLane({ log, metrics, bounds, shares, open })
    this.#heavy = new TextLane({ log, metrics, bounds, shares, open })
    metrics.automod.textsWaiting.from(() => this.#light.waiting + this.#heavy.waiting)
  }

  find(server: Snowflake, question: TextQuestion): Promise<TextAnswer> {
    return new Promise((resolve, reject) => {
      const since = performance.now()
      const { owner, author, content, text, rules, known, asked } = question
      const lane =
        threadCost(question, ({ config }) => this.#steps.get(config)) <= lightNanoseconds ? this.#light : this.#heavy
      const count = (outcome: "judged" | Missed) => {
        this.#metrics.automod.texts[outcome].inc()
        this.#metrics.automod.textSeconds.observe((performance.now() - since) / 1000)
      }
      const answer = (verdicts: readonly TextVerdict[]) => {
        for (const verdict of verdicts)
          // That rules changed is found out by the turn, and no work for the thread.
          if (verdict !== null && isUnjudged(verdict) && verdict.unjudged !== "rules_changed")
            this.#metrics.automod.unjudged[verdict.unjudged].inc()
        resolve({
          content,
          text,
          asked: asked + 1,
          verdicts: new Map([...known, ...rules.map(({ config }, at) => [config, verdicts[at]!] as const)]),
        })
      }
      lane.ask({
        server,
        owner,
        author,
        since,
        task: id => lane.textTask(id, question),
        answer: ({ found, steps }) => {
          for (const [at, { config }] of rules.entries()) if (steps) this.#steps.set(config, steps[at]!)
          count("judged")
          answer(found as readonly TextVerdict[])
        },
        giveUp: reason => {
          count(reason)
          answer(rules.map(() => ({ unjudged: reason })))
        },
        refuse: reason => {
          count(reason)
          reject(unavailable("auto-moderation is busy"))
        },
      })
    })
  }

  measure(server: Snowflake, payers: Payers, rules: readonly TextRule[]): Promise<readonly Measured[] | undefined> {
    const measure = rules.map(({ rule_type, config }) => ({ rule_type, config }))
    const { owner, author } = payers
    return new Promise(resolve =>
      this.#heavy.ask(
        {
          server,
          owner,
          author,
          since: performance.now(),
          task: id => ({ id, measure }),
          answer: ({ found }) => resolve(found as readonly Measured[]),
          giveUp: () => resolve(undefined),
          refuse: () => resolve(undefined),
        },
        true,
      ),
    )
  }

  async stop(): Promise<void> {
    await Promise.all([this.#light.stop(), this.#heavy.stop()])
  }
}

export const createTextJudge = (options: TextJudgeOptions): TextJudge => new ThreadedTextJudge(options)
