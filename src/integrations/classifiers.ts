import type { ClassifierBackend } from "../contract/communities/automod.ts"
import type { AutomodClassifiers, ClassifierSettings } from "../contract/communities/automod-settings.ts"
import type { Scores } from "../domain/communities/automod-match.ts"
import { requestBody } from "../domain/communities/automod-settings.ts"
import type { Log } from "../observability/log.ts"
import type { Metrics } from "../observability/metrics.ts"
import { backoffMs } from "../std/backoff.ts"
import { LateAnswer, OutboundRequests, type Resolve } from "./outbound-requests.ts"
import type { Payers } from "./thread-shares.ts"

/**
 * Asks classifiers about texts. It keeps:
 *   CLASS1  One that fails again and again is left alone, for longer each time, and then tried with
 *           a single text.
 *   CLASS2  Nobody's texts take the places of all others.
 */
export interface Classifiers {
  /** What a classifier says of a text, or why it says nothing now. */
  ask(backend: ClassifierBackend, settings: AskedSettings, content: string, payers: Payers): Promise<Asked>
  close(): void
}

export interface AskedSettings {
  readonly classifiers: AutomodClassifiers
  /** Those that the configuration has set up: they may be anywhere. */
  readonly trusted: ReadonlySet<ClassifierBackend>
  /** Another one says that the classifiers may be others. */
  readonly version: number
}

/**
 * `refused`: it does not take this text, and would not take it later. `busy`: too many texts of this
 * owner or author, or of all, are being asked about.
 */
export type Asked = Scores | "refused" | "late" | "failed" | "busy" | "resting"

export interface ClassifiersOptions {
  readonly mayBePrivate: boolean
  readonly log: Log
  readonly metrics: Pick<Metrics, "automod">
  /** Milliseconds, of no particular beginning. */
  readonly now: () => number
  /** Milliseconds that any question may take; else each takes as long as its settings say. */
  readonly maxTimeoutMs?: number
  readonly resolve?: Resolve
}

const usualTimeoutMs = 10_000
const maxAnswerBytes = 65_536
/** What is taken of an answer. */
const maxCategories = 200
/** Requests in progress: of all servers, and of those of one owner, or of one author. */
export const maxConcurrentQuestions = 64
const maxConcurrentOfPayer = 16
/** CLASS1: failures in a row before it rests, and for how long. */
const failuresToRest = 5
const restMs = { firstMs: 2_000, maxMs: 60_000 }

/** How one classifier has been doing. */
interface Health {
  readonly version: number
  failures: number
  restsUntil: number
  isTrying: boolean
}

interface Question {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: unknown
  readonly timeoutMs: number
}

interface Dialect<T extends ClassifierBackend> {
  readonly question: (settings: ClassifierSettings<T>, content: string) => Question
  /** Undefined: it is no answer. */
  readonly scores: (answer: unknown) => Record<string, number> | undefined
}

const dialects: { readonly [T in ClassifierBackend]: Dialect<T> } = {
  custom: {
    question: (settings, content) => {
      const { endpoint_url, api_key, auth_header, auth_prefix, timeout_seconds, headers, request_format } = settings
      const key = auth_prefix === "" ? api_key : `${auth_prefix} ${api_key}`
      return {
        url: endpoint_url,
        headers: { ...headers, ...(api_key !== null && { [auth_header]: key! }) },
        body: requestBody(request_format, content),
        timeoutMs: timeout_seconds * 1000,
      }
    },
    scores: answer => numbersOf(field(answer, "scores")),
  },
  openai: {
    question: ({ api_url, api_key, model }, content) => ({
      url: api_url,
      headers: api_key === null ? {} : { authorization: `Bearer ${api_key}` },
      body: { input: content, model },
      timeoutMs: usualTimeoutMs,
    }),
    scores(answer) {
      const results = field(answer, "results")
      return Array.isArray(results) ? numbersOf(field(results[0], "category_scores")) : undefined
    },
  },
  perspective: {
    question: ({ api_url, api_key, attributes }, content) => ({
      url: api_url,
      headers: api_key === null ? {} : { "x-goog-api-key": api_key },
      body: {
        comment: { text: content },
        requestedAttributes: Object.fromEntries(attributes.map(name => [name, {}])),
        doNotStore: true,
      },
      timeoutMs: usualTimeoutMs,
    }),
    scores(answer) {
      const scores = field(answer, "attributeScores")
      if (typeof scores !== "object" || scores === null) return undefined
      return numbersOf(
        Object.fromEntries(
          Object.entries(scores).map(([name, of]) => [name.toLowerCase(), field(field(of, "summaryScore"), "value")]),
        ),
      )
    },
  },
}

export function createClassifiers({
  mayBePrivate,
  log,
  metrics,
  now,
  maxTimeoutMs = Infinity,
  resolve,
}: ClassifiersOptions): Classifiers {
  const outbound = new OutboundRequests({
    mayBePrivate,
    maxSockets: maxConcurrentQuestions,
    ...(resolve && { resolve }),
  })
  const trusted = new OutboundRequests({ mayBePrivate: true, maxSockets: maxConcurrentQuestions })
  const asking = new Set<Payers>()
  const healths = new Map<ClassifierBackend, Health>()

  /** CLASS2 */
  const isFull = (payers: Payers) => {
    const isOverIn = (role: keyof Payers) =>
      [...asking].filter(other => other[role] === payers[role]).length >= maxConcurrentOfPayer
    return asking.size >= maxConcurrentQuestions || isOverIn("owner") || isOverIn("author")
  }

  function healthOf(backend: ClassifierBackend, version: number): Health {
    const known = healths.get(backend)
    if (known?.version === version) return known
    const fresh = { version, failures: 0, restsUntil: 0, isTrying: false }
    healths.set(backend, fresh)
    return fresh
  }

  /** CLASS1 */
  function noteOutcome(backend: ClassifierBackend, health: Health, why: string | undefined): void {
    health.isTrying = false
    if (why === undefined) {
      if (health.failures >= failuresToRest) log.info({ backend }, "classifier answers again")
      health.failures = 0
      return
    }
    health.failures++
    if (health.failures < failuresToRest) return
    health.restsUntil = now() + backoffMs(health.failures - failuresToRest, restMs.firstMs, restMs.maxMs)
    // Of an outage, its beginning is told. Not what was asked: it is what somebody wrote.
    if (health.failures === failuresToRest) log.warn({ backend, why }, "classifier does not answer")
  }

  async function ask(
    backend: ClassifierBackend,
    { classifiers, trusted: trustedBackends, version }: AskedSettings,
    content: string,
    { owner, author }: Payers,
  ): Promise<Asked> {
    const settings = classifiers[backend]
    if (!settings) return "failed"
    const count = <Outcome extends Exclude<Asked, Scores> | "answered">(outcome: Outcome): Outcome => {
      metrics.automod.questions[outcome].inc()
      return outcome
    }
    const health = healthOf(backend, version)
    const isResting = health.failures >= failuresToRest
    if (isResting && (health.isTrying || now() < health.restsUntil)) return count("resting")
    const payers = { owner, author }
    if (isFull(payers)) return count("busy")
    health.isTrying = isResting
    asking.add(payers)
    try {
      const requests = trustedBackends.has(backend) ? trusted : outbound
      const categories = await categoriesFrom(requests, questionFor(backend, settings, content), maxTimeoutMs)
      noteOutcome(backend, health, undefined)
      count("answered")
      return { categories, threshold: settings.threshold }
    } catch (error) {
      // Its author must not be able to have the classifier left alone.
      if (error instanceof RefusedText) {
        noteOutcome(backend, health, undefined)
        return count("refused")
      }
      noteOutcome(backend, health, (error as Error).message)
      return count(error instanceof LateAnswer ? "late" : "failed")
    } finally {
      asking.delete(payers)
    }
  }

  return {
    ask,
    close() {
      outbound.close()
      trusted.close()
    },
  }
}

class RefusedText extends Error {
  override name = "RefusedText"
}
/** Bad request, too large, not understood: so are, for one, texts in a language that it does not know. */
const refusals: ReadonlySet<number> = new Set([400, 413, 422])

type Asking = Question & { readonly scoresIn: (answer: unknown) => Record<string, number> | undefined }

function questionFor<T extends ClassifierBackend>(
  backend: T,
  settings: ClassifierSettings<ClassifierBackend>,
  content: string,
): Asking {
  const { question, scores }: Dialect<T> = dialects[backend]
  return { ...question(settings as ClassifierSettings<T>, content), scoresIn: scores }
}

async function categoriesFrom(
  requests: OutboundRequests,
  { url, headers, body, timeoutMs, scoresIn }: Asking,
  maxTimeoutMs: number,
): Promise<Record<string, number>> {
  const { status, text } = await requests.post(url, {
    headers: { ...headers, "content-type": "application/json", accept: "application/json" },
    body: JSON.stringify(body),
    timeoutMs: Math.min(timeoutMs, maxTimeoutMs),
    maxAnswerBytes,
  })
  if (refusals.has(status)) throw new RefusedText()
  if (status < 200 || status > 299) throw new Error(`status ${status}`)
  const found = scoresIn(parsed(text))
  if (!found) throw new Error("no scores in the answer")
  return found
}

/** What the parser says of a fault quotes the answer, and that may quote what somebody wrote. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    throw new Error("the answer is no JSON")
  }
}

const field = (value: unknown, key: string): unknown =>
  typeof value === "object" && value !== null && Object.hasOwn(value, key)
    ? (value as Record<string, unknown>)[key]
    : undefined

/** Scores are from 0 to 1; anything else says nothing. */
function numbersOf(value: unknown): Record<string, number> | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined
  const given = Object.entries(value)
  const found = given.filter(
    (entry): entry is [string, number] => typeof entry[1] === "number" && entry[1] >= 0 && entry[1] <= 1,
  )
  return found.length === 0 && given.length > 0 ? undefined : Object.fromEntries(found.slice(0, maxCategories))
}
