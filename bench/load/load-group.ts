import { fork } from "node:child_process"
import type { ChildProcess } from "node:child_process"
import { once } from "node:events"
import type { Commands } from "./load-process.ts"

/** No command of ours takes longer; a group of load clients that does is stuck. */
const timeoutMs = 240_000

interface Waiting {
  resolve: (output: never) => void
  reject: (cause: Error) => void
}

/** A process full of clients, and what it can be asked to do. */
export class LoadGroup {
  readonly #process: ChildProcess
  readonly #waiting = new Map<number, Waiting>()
  #lastId = 0
  /** All sessions here have a post that another group of load clients sent. */
  onHeard: (number: number) => void = () => undefined

  constructor() {
    this.#process = fork(new URL("./load-process.ts", import.meta.url), {
      stdio: ["ignore", "inherit", "inherit", "ipc"],
    })
    type Answer = { id: number; output: never } | { id: number; failure: string }
    this.#process.on("message", (answer: Answer | { heard: number }) => {
      if ("heard" in answer) return this.onHeard(answer.heard)
      const waiting = this.#waiting.get(answer.id)
      this.#waiting.delete(answer.id)
      if ("failure" in answer) waiting?.reject(new Error(answer.failure))
      else waiting?.resolve(answer.output)
    })
    this.#process.on("exit", code => {
      for (const { reject } of this.#waiting.values()) reject(new Error(`the clients' process ended with ${code}`))
      this.#waiting.clear()
    })
  }

  ask<N extends keyof Commands>(name: N, input: Commands[N]["input"]): Promise<Commands[N]["output"]> {
    const id = ++this.#lastId
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`${name} took longer than ${timeoutMs / 1_000} s`)), timeoutMs)
      const settle =
        <A extends unknown[]>(end: (...answer: A) => void) =>
        (...answer: A) => {
          clearTimeout(timer)
          end(...answer)
        }
      this.#waiting.set(id, { resolve: settle(resolve), reject: settle(reject) })
      this.#process.send({ id, name, input }, cause => {
        if (cause) this.#waiting.get(id)?.reject(cause)
      })
    })
  }

  /** Another group of load clients has a post that this one sent. */
  heardElsewhere(number: number): void {
    this.#process.send({ heard: number })
  }

  async stop(): Promise<void> {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return
    const ended = once(this.#process, "exit")
    this.#process.kill("SIGKILL")
    await ended
  }
}
