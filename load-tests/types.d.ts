/** As much of autocannon as is used here; it brings no types. */
declare module "autocannon" {
  export interface Options {
    url: string
    title?: string
    connections: number
    duration: number
    method?: "GET" | "POST"
    headers?: Record<string, string>
    body?: string
    /** Replaces `[<id>]` in the body by an id that no other request has. */
    idReplacement?: boolean
  }

  export interface Result {
    "2xx": number
    non2xx: number
    errors: number
    timeouts: number
    statusCodeStats: Record<string, { count: number }>
  }

  interface Autocannon {
    (options: Options): Promise<Result>
    printResult(result: Result): string
  }

  const autocannon: Autocannon
  export default autocannon
}

/** As much of k6 as is used here, in its words (k6 1 and 2): the scenarios run in k6, too, which brings its own types. */
declare module "k6" {
  export function check<T>(value: T, checks: Record<string, (value: T) => boolean>): boolean
  export function fail(why: string): never
}

declare module "k6/http" {
  export interface TextResponse {
    /** 0 where there was no answer; `error` says why. */
    readonly status: number
    readonly error: string
    readonly headers: Readonly<Record<string, string>>
    readonly body: string
    /** Milliseconds. */
    readonly timings: { readonly duration: number }
  }
  interface Params {
    headers?: Record<string, string>
    tags?: Record<string, string>
    timeout?: string
    responseType: "text"
  }
  const http: {
    asyncRequest(method: string, url: string, body: string | null, params: Params): Promise<TextResponse>
  }
  export default http
}

declare module "k6/websockets" {
  export class WebSocket {
    constructor(url: string)
    addEventListener(event: "open" | "message" | "close" | "error", listener: (event: { data?: unknown }) => void): void
    send(data: string): void
    close(code?: number): void
  }
}

declare module "k6/metrics" {
  export class Counter {
    constructor(name: string)
    add(value: number): void
  }
  export class Rate {
    constructor(name: string)
    add(value: boolean): void
  }
  export class Trend {
    constructor(name: string, isTime?: boolean)
    add(value: number): void
  }
}

declare module "k6/execution" {
  const exec: {
    readonly scenario: { readonly iterationInTest: number }
    readonly vu: { readonly idInTest: number }
  }
  export default exec
}

declare module "k6/timers" {
  type Timer = number
  export function setTimeout(run: () => void, delayMs: number): Timer
  export function clearTimeout(timer: Timer): void
  export function setInterval(run: () => void, delayMs: number): Timer
  export function clearInterval(timer: Timer): void
}

declare module "k6/options" {
  export type Threshold = string | { threshold: string; abortOnFail?: boolean; delayAbortEval?: string }
  export interface RampingArrivalRateScenario {
    executor: "ramping-arrival-rate"
    exec: string
    startTime?: string
    startRate: number
    timeUnit: string
    stages: { duration: string; target: number }[]
    preAllocatedVUs: number
    maxVUs: number
    gracefulStop: string
  }
  export interface Options {
    scenarios: Record<string, RampingArrivalRateScenario>
    thresholds: Record<string, Threshold[]>
    summaryTrendStats: string[]
    setupTimeout: string
    teardownTimeout: string
  }
}

declare const __ENV: Readonly<Record<string, string>>
/** A file as text, before the test begins. */
declare function open(path: string): string
