import { duration } from "./format.ts"
import type { Session } from "./session.ts"
import { t, translated } from "./text.ts"

/** What a call takes and answers. A route is named by its method and path: `GET /users/:user_id`. */
export interface Call {
  params?: Record<string, string>
  query?: Record<string, unknown>
  body?: unknown
  reply: unknown
}

type Input<C extends Call> = { [K in Exclude<keyof C, "reply">]: C[K] }
type Rest<C extends Call> =
  {} extends Input<C> ? [input?: Input<C>, options?: CallOptions] : [input: Input<C>, options?: CallOptions]

type Sent = Omit<Call, "reply">

export interface CallOptions {
  signal?: AbortSignal
  /** It is sent even if the page is closed meanwhile. */
  keepalive?: boolean
}

/** A refusal, with the server's own words. */
export class Refusal extends Error {
  readonly status: number
  readonly code: number | string
  readonly retryAfterSeconds: number | undefined

  constructor(status: number, body: unknown, retryAfter: string | null) {
    const { message, code } = errorIn(body)
    super(message ?? t("The server answered {status}.", { status }))
    this.status = status
    this.code = code ?? status
    this.retryAfterSeconds = retryAfter === null ? undefined : Number(retryAfter)
  }
}

function errorIn(body: unknown): { message?: string; code?: number | string } {
  const error: unknown = typeof body === "object" && body !== null && "error" in body ? body.error : undefined
  return typeof error === "object" && error !== null ? error : {}
}

const answerWithinMs = 30_000

/** The server's words, in the reader's language where the catalogue has them; what follows a colon is a detail. */
function refusal(words: string): string {
  const whole = translated(words)
  if (whole !== undefined) return whole
  const end = words.indexOf(": ")
  const begin = end < 0 ? undefined : translated(words.slice(0, end))
  return begin === undefined ? words : `${begin}${words.slice(end)}`
}

/** What the server itself says of something that failed, in its language. */
export const saidOf = (error: unknown): string =>
  error instanceof Error ? ("words" in error && typeof error.words === "string" ? error.words : error.message) : ""

/** A limit says when it ends. */
function whenAgain(error: Error): string {
  const isLimit = "status" in error && error.status === 429
  // Of reactions the server says it in words.
  if (
    !isLimit ||
    /try again in/i.test(saidOf(error)) ||
    !("retryAfterSeconds" in error) ||
    typeof error.retryAfterSeconds !== "number"
  )
    return ""
  return `. ${t("You may try again in {time}.", { time: duration(Math.max(1, error.retryAfterSeconds)) })}`
}

/** What to tell a person of something that failed. */
export function wordsOf(error: unknown): string {
  if (error instanceof Refusal) return refusal(error.message)
  if (error instanceof DOMException && error.name === "TimeoutError") return t("The server did not answer in time.")
  if (error instanceof TypeError) return t("The server cannot be reached.")
  if (error instanceof Error && "words" in error && typeof error.words === "string")
    return `${refusal(error.words)}${whenAgain(error)}`
  return error instanceof Error ? error.message : t("Something went wrong.")
}

export const isAborted = (error: unknown): boolean => error instanceof DOMException && error.name === "AbortError"

interface ApiOptions {
  /** Where the routes begin, without a slash at the end. */
  root: string
  /** What stands before `/api/v1`, where a route is named with that. */
  base: string
  session: Session
  /** Routes that need no token: their 401 says nothing of it. */
  open: ReadonlySet<string>
  /** After a 401: the token is forgotten already. */
  onUnauthorized: () => void
}

export function createApi<Table extends { [K in keyof Table]: Call }>({
  root,
  base,
  session,
  open,
  onUnauthorized,
}: ApiOptions) {
  async function send(name: string, { params, query, body }: Sent, options: CallOptions): Promise<Response> {
    const [method = "GET", path = "/"] = name.split(" ")
    const search = new URLSearchParams()
    for (const [key, value] of Object.entries(query ?? {}))
      if (value !== undefined && value !== null && value !== "") search.set(key, asText(value))
    const headers: Record<string, string> = {}
    const { value: token } = session.token
    if (token !== null && !open.has(name)) headers["Authorization"] = `Bearer ${token}`
    if (body !== undefined) headers["Content-Type"] = "application/json"
    const deadline = AbortSignal.timeout(answerWithinMs)
    const place = path.startsWith("/api/v1/") ? base : root
    const answer = await fetch(`${place}${filled(path, params ?? {})}${search.size > 0 ? `?${search}` : ""}`, {
      method,
      headers,
      cache: "no-store",
      credentials: "omit",
      signal: options.signal ? AbortSignal.any([options.signal, deadline]) : deadline,
      ...(options.keepalive && { keepalive: true }),
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    if (answer.ok) return answer
    const refusal = new Refusal(
      answer.status,
      await answer.json().catch(() => undefined),
      answer.headers.get("Retry-After"),
    )
    // Another call may have been answered first, and its token be another one by now.
    if (answer.status === 401 && token !== null && token === session.token.value && !open.has(name)) {
      session.forget()
      onUnauthorized()
    }
    throw refusal
  }

  return {
    call: async <Name extends keyof Table & string>(
      name: Name,
      ...[input, options]: Rest<Table[Name]>
    ): Promise<Table[Name]["reply"]> => (await send(name, (input ?? {}) as Sent, options ?? {})).json() as never,

    /** An answer that is a file. */
    download: async (name: string, query: Record<string, unknown>): Promise<{ name: string; content: Blob }> => {
      const answer = await send(name, { query }, {})
      const named = /filename="?([^";]+)"?/.exec(answer.headers.get("Content-Disposition") ?? "")
      return { name: named?.[1] ?? "download", content: await answer.blob() }
    },
  }
}

const asText = (value: unknown) => (typeof value === "string" ? value : JSON.stringify(value))

/** A parameter that ends in `*` is the rest of the path: its slashes stay. */
const filled = (path: string, params: Record<string, string>): string =>
  path.replace(/:(\w+)(\*?)/g, (_, name: string, rest: string) => {
    const value = params[name] ?? ""
    return rest ? value.split("/").map(encodeURIComponent).join("/") : encodeURIComponent(value)
  })

/** Offers a file to the person, as if they had clicked a link to it. */
export function offerFile(name: string, content: Blob): void {
  const link = document.createElement("a")
  link.href = URL.createObjectURL(content)
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000)
}
