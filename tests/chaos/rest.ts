import { Agent, request as httpRequest } from "node:http"
import { nameIn, type Action, type Recorder, type Stored, type Untimed } from "./history.ts"

interface Answer {
  /** 0: no answer. */
  status: number
  retryAfterSeconds?: number
  body: unknown
}

/** Longer than what is promised, so that a broken promise is seen as one. */
const timeoutMs = 7_000

export interface Call {
  client: string
  session: string
  token?: string | undefined
  action: Action
  method: string
  url: string
  body?: object
  /** A connection of its own: the kernel gives it to any worker. */
  fresh?: boolean
}

/** REST with a record of every call. It never throws: no answer is an answer, too. */
export class Rest {
  readonly #recorder: Recorder
  // Without a bound: a request that waited here would be counted as one that the server let wait.
  readonly #agent = new Agent({ keepAlive: true, scheduling: "fifo" })

  constructor(recorder: Recorder) {
    this.#recorder = recorder
  }

  async call(call: Call): Promise<Answer & { outcome: "ok" | "fail" | "maybe" }> {
    const { client, session, action } = call
    const op = this.#recorder.nextOp()
    this.#recorder.add({ type: "invoke", op, client, session, action })
    const answer = await this.#ask(call)
    const outcome = outcomeOf(answer.status)
    const done: Untimed = { type: outcome, op, status: answer.status }
    if (answer.retryAfterSeconds !== undefined) done.retryAfterSeconds = answer.retryAfterSeconds
    const messages = outcome === "ok" ? messagesIn(answer.body) : []
    if (messages.length > 0) done.messages = messages
    if (outcome === "ok" && action.do === "invite") done.code = (answer.body as { code: string }).code
    this.#recorder.add(done)
    return { ...answer, outcome }
  }

  close(): void {
    this.#agent.destroy()
  }

  #ask({ method, url, token, body, fresh }: Call): Promise<Answer> {
    return new Promise(resolve => {
      const text = body === undefined ? undefined : JSON.stringify(body)
      const headers: Record<string, string | number> = {}
      if (token !== undefined) headers["authorization"] = `Bearer ${token}`
      if (text !== undefined) {
        headers["content-type"] = "application/json"
        headers["content-length"] = Buffer.byteLength(text)
      }
      const lost = () => {
        clearTimeout(late)
        resolve({ status: 0, body: undefined })
      }
      const request = httpRequest(url, { method, headers, agent: fresh ? false : this.#agent }, response => {
        let received = ""
        response.setEncoding("utf8")
        response.on("data", (piece: string) => (received += piece))
        response.on("aborted", lost)
        response.on("error", lost)
        response.on("end", () => {
          clearTimeout(late)
          if (!response.complete) return resolve({ status: 0, body: undefined })
          const after = Number(response.headers["retry-after"] ?? Number.NaN)
          resolve({
            status: response.statusCode ?? 0,
            ...(Number.isFinite(after) && { retryAfterSeconds: after }),
            body: parsed(received),
          })
        })
      })
      const late = setTimeout(() => request.destroy(new Error("too late")), timeoutMs)
      request.on("error", lost)
      request.end(text)
    })
  }
}

function outcomeOf(status: number): "ok" | "fail" | "maybe" {
  if (status >= 200 && status < 300) return "ok"
  return status >= 400 && status < 500 && status !== 408 ? "fail" : "maybe"
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function messagesIn(body: unknown): Stored[] {
  const list = Array.isArray(body) ? (body as unknown[]) : [body]
  return list.flatMap(one => {
    const { id, author_id: author, content } = (one ?? {}) as { id?: string; author_id?: string; content?: string }
    return id !== undefined && author !== undefined ? [{ id, author, content: nameIn(content ?? null) }] : []
  })
}
