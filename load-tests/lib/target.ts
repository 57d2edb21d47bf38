/** What is measured: its address, and how its REST API is asked. */
import { fail } from "k6"
import http, { type TextResponse } from "k6/http"
import { setTimeout } from "k6/timers"

export const target = (__ENV["TARGET"] ?? "http://127.0.0.1:8000").replace(/\/+$/, "")
export const gatewayUrl = `${target.replace(/^http/, "ws")}/gateway`

/** A number of the environment. */
export function numberOf(name: string, fallback: number): number {
  const text = __ENV[name]
  if (text === undefined || text === "") return fallback
  const value = Number(text)
  if (!(value > 0)) throw new Error(`${name} is a number above 0, not ${text}`)
  return value
}

/** Longer waits are refusals. */
const answerTimeoutMs = 60_000
/** For which the preparation waits when it is told to slow down. */
const retryTimeoutMs = 120_000

export interface Asked {
  readonly name: string
  readonly token?: string | undefined
  readonly body?: unknown
}

export type Answer = TextResponse

export function ask(method: string, path: string, { name, token, body }: Asked): Promise<Answer> {
  const headers: Record<string, string> = { "Content-Type": "application/json" }
  if (token !== undefined) headers["Authorization"] = `Bearer ${token}`
  const text = body === undefined ? null : JSON.stringify(body)
  return http.asyncRequest(method, `${target}/api/v1${path}`, text, {
    headers,
    tags: { name },
    timeout: `${answerTimeoutMs}ms`,
    responseType: "text",
  })
}

/** The body of an answer without which nothing can be measured. One that says "later" is asked for again. */
export async function must<T>(method: string, path: string, about: Asked): Promise<T> {
  for (let waitedMs = 0; ;) {
    const reply = await ask(method, path, about)
    if (reply.status === 200) return JSON.parse(reply.body) as T
    if (reply.status !== 429 || waitedMs >= retryTimeoutMs)
      fail(`${about.name}: ${reply.status} ${reply.error} ${reply.body || ""}`)
    const waitMs = 1_000 * Math.min(30, Math.max(1, Number(reply.headers["Retry-After"] ?? 1)))
    waitedMs += waitMs
    await new Promise<void>(resolve => {
      setTimeout(resolve, waitMs)
    })
  }
}
