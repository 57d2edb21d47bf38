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
