import type { ClassifierBackend } from "../contract/communities/automod.ts"
import { unavailable } from "../contract/core/errors.ts"
import type { Scores } from "../domain/communities/automod-match.ts"
import type { Log } from "../observability/log.ts"
import type { Metrics } from "../observability/metrics.ts"
import type { Payers } from "./thread-shares.ts"

const timeoutMs = 2_000
const maxAnswerBytes = 65_536
/** Requests in progress: of all servers, and of those of one owner, or of one author. */
const maxConcurrent = 64
const maxConcurrentOfPayer = 16

/** Where an operator lets texts be classified. */
export interface ClassifierEndpoint {
  readonly url: string
  readonly token?: string | undefined
}
export type ClassifierEndpoints = Readonly<Partial<Record<ClassifierBackend, ClassifierEndpoint>>>

export interface Classifiers {
  /** Those that can be asked. */
  readonly backends: readonly ClassifierBackend[]
  /**
   * What they say of a text; null: nothing usable in time, so that nobody is held responsible for
   * it. A text that cannot be sent because of others, to one that answers, is refused.
   */
  scores(
    backends: readonly ClassifierBackend[],
    content: string,
    payers: Payers,
  ): Promise<Readonly<Partial<Record<ClassifierBackend, Scores>>>>
}

type Outcome = "answered" | "late" | "failed" | "busy"

interface Dialect {
  readonly request: (content: string, token: string | undefined) => { headers: Record<string, string>; body: unknown }
  /** Undefined: it is no answer. */
  readonly scores: (answer: unknown) => Record<string, number> | undefined
}

const bearer = (token: string | undefined) => (token === undefined ? {} : { authorization: `Bearer ${token}` })

/** What Perspective is asked for. */
const attributes = ["TOXICITY", "SEVERE_TOXICITY", "IDENTITY_ATTACK", "INSULT", "PROFANITY", "THREAT"]

const dialects: { readonly [Backend in ClassifierBackend]: Dialect } = {
  custom: {
    request: (content, token) => ({ headers: bearer(token), body: { content } }),
    scores: answer => numbersOf(field(answer, "scores")),
  },
  openai: {
    request: (content, token) => ({
      headers: bearer(token),
      body: { input: content, model: "omni-moderation-latest" },
    }),
    scores(answer) {
      const results = field(answer, "results")
      return Array.isArray(results) ? numbersOf(field(results[0], "category_scores")) : undefined
    },
  },
  perspective: {
    request: (content, token) => ({
      headers: token === undefined ? {} : { "x-goog-api-key": token },
      body: {
        comment: { text: content },
        requestedAttributes: Object.fromEntries(attributes.map(name => [name, {}])),
        doNotStore: true,
      },
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

export function createClassifiers(
  endpoints: ClassifierEndpoints,
  { log, metrics }: { log: Log; metrics: Pick<Metrics, "automod"> },
): Classifiers {
  const backends = (Object.keys(dialects) as ClassifierBackend[]).filter(backend => endpoints[backend])
  const asking = new Set<Payers>()
  /** Those whose latest request was answered. */
  const answering = new Set<ClassifierBackend>()
  const isFull = (role: keyof Payers, payers: Payers) =>
    [...asking].filter(other => other[role] === payers[role]).length >= maxConcurrentOfPayer

  async function scoresOf(backend: ClassifierBackend, content: string, { owner, author }: Payers): Promise<Scores> {
    const endpoint = endpoints[backend]
    if (!endpoint) return null
    const count = (outcome: Outcome) => metrics.automod.questions[outcome].inc()
    const payers = { owner, author }
    const isOwn = isFull("owner", payers)
    if (isOwn || asking.size >= maxConcurrent || isFull("author", payers)) {
      count("busy")
      if (!isOwn && answering.has(backend)) throw unavailable("classifiers are busy")
      return null
    }
    asking.add(payers)
    try {
      const scores = await ask(endpoint, dialects[backend], content)
      count("answered")
      answering.add(backend)
      return scores
    } catch (error) {
      const isLate = error instanceof Error && error.name === "TimeoutError"
      count(isLate ? "late" : "failed")
      answering.delete(backend)
      // Not what was asked: it is what somebody wrote.
      log.warn({ backend, late: isLate, why: (error as Error).message }, "classifier did not answer")
      return null
    } finally {
      asking.delete(payers)
    }
  }

  return {
    backends,
    async scores(asked, content, payers) {
      return Object.fromEntries(
        await Promise.all(asked.map(async backend => [backend, await scoresOf(backend, content, payers)] as const)),
      )
    },
  }
}

async function ask({ url, token }: ClassifierEndpoint, dialect: Dialect, content: string): Promise<Scores> {
  const { headers, body } = dialect.request(content, token)
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", accept: "application/json", ...headers },
    body: JSON.stringify(body),
    // The operator named this address and no other.
    redirect: "error",
    signal: AbortSignal.timeout(timeoutMs),
  })
  if (!response.ok) {
    await response.body?.cancel()
    throw new Error(`status ${response.status}`)
  }
  const scores = dialect.scores(parsed(await boundedText(response)))
  if (!scores) throw new Error("no scores in the answer")
  return scores
}

/** What the parser says of a fault quotes the answer, and that may quote what somebody wrote. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    throw new Error("the answer is no JSON")
  }
}

async function boundedText(response: Response): Promise<string> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of response.body ?? []) {
    size += (chunk as Uint8Array).byteLength
    if (size > maxAnswerBytes) throw new Error("the answer is too long")
    chunks.push(chunk as Uint8Array)
  }
  return Buffer.concat(chunks).toString("utf8")
}

const field = (value: unknown, key: string): unknown =>
  typeof value === "object" && value !== null && Object.hasOwn(value, key)
    ? (value as Record<string, unknown>)[key]
    : undefined

function numbersOf(value: unknown): Record<string, number> | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined
  return Object.fromEntries(
    Object.entries(value).filter((entry): entry is [string, number] => typeof entry[1] === "number"),
  )
}
