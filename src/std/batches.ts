import type { Clock } from "./clock.ts"

/** What one batch holds at most beside a number of questions; a larger question goes alone. */
export interface BatchBytes<Question> {
  readonly maxBytes: number
  readonly bytesOf: (question: Question) => number
}

/**
 * Gathers what is asked within one turn of the event loop, so that it costs one command. Nothing waits for a timer: a
 * turn with one question sends one.
 */
export function inBatches<Question, Answer>(
  send: (questions: readonly Question[]) => Promise<readonly Answer[]>,
  most: number,
  {
    bytes: bound,
    soon = action => void setImmediate(action),
  }: { readonly bytes?: BatchBytes<Question>; readonly soon?: Clock["soon"] } = {},
): (question: Question) => Promise<Answer> {
  interface Waiting {
    resolve(answer: Answer): void
    reject(error: unknown): void
  }
  let questions: Question[] = []
  let waiting: Waiting[] = []
  let bytes = 0

  function flush(): void {
    const asked = questions
    const askers = waiting
    if (asked.length === 0) return
    questions = []
    waiting = []
    bytes = 0
    send(asked).then(
      answers => askers.forEach((asker, i) => asker.resolve(answers[i]!)),
      (error: unknown) => askers.forEach(asker => asker.reject(error)),
    )
  }

  return question =>
    new Promise((resolve, reject) => {
      if (bound) {
        const own = bound.bytesOf(question)
        if (bytes + own > bound.maxBytes) flush()
        bytes += own
      }
      // Sockets that became readable together are served before the next check phase.
      if (questions.push(question) === 1) soon(flush)
      waiting.push({ resolve, reject })
      if (questions.length === most) flush()
    })
}

/**
 * Asks one question at a time: what is asked while one is out goes together as the next, however much it is. Each begins
 * after all that it is for have asked.
 */
export function inTurns<Question, Answer>(
  send: (questions: readonly Question[]) => Promise<readonly Answer[]>,
  { soon }: Pick<Clock, "soon">,
): (question: Question) => Promise<Answer> {
  interface Asker {
    readonly question: Question
    resolve(answer: Answer): void
    reject(error: unknown): void
  }
  let waiting: Asker[] = []
  let isOut = false

  async function ask(): Promise<void> {
    const askers = waiting
    waiting = []
    try {
      const answers = await send(askers.map(({ question }) => question))
      for (const [i, { resolve }] of askers.entries()) resolve(answers[i]!)
    } catch (error) {
      for (const { reject } of askers) reject(error)
    }
    next()
  }

  function next(): void {
    isOut = waiting.length > 0
    if (isOut) soon(() => void ask())
  }

  return question =>
    new Promise((resolve, reject) => {
      waiting.push({ question, resolve, reject })
      if (!isOut) next()
    })
}

/**
 * The same where one answer is for all who ask together: they share one promise. An equal question is asked once.
 */
export class SharedTurns<Question, Answer> {
  readonly #send: (questions: readonly Question[]) => Promise<Answer>
  readonly #soon: Clock["soon"]
  /** What is gathered for the next turn. */
  #next: Turn<Question, Answer> | undefined
  #out: Turn<Question, Answer> | undefined

  constructor(send: (questions: readonly Question[]) => Promise<Answer>, { soon }: Pick<Clock, "soon">) {
    this.#send = send
    this.#soon = soon
  }

  ask(question: Question): Promise<Answer> {
    if (!this.#next) {
      this.#next = new Turn()
      if (!this.#out) this.#begin()
    }
    this.#next.questions.add(question)
    return this.#next.answer
  }

  /** Whether it is asked and not yet answered. */
  isAsking(question: Question): boolean {
    return this.#next?.questions.has(question) === true || this.#out?.questions.has(question) === true
  }

  #begin(): void {
    this.#soon(() => void this.#take(this.#next!))
  }

  async #take(turn: Turn<Question, Answer>): Promise<void> {
    this.#next = undefined
    this.#out = turn
    try {
      turn.resolve(await this.#send([...turn.questions]))
    } catch (error) {
      turn.reject(error)
    }
    this.#out = undefined
    if (this.#next) this.#begin()
  }
}

class Turn<Question, Answer> {
  readonly questions = new Set<Question>()
  readonly answer: Promise<Answer>
  resolve!: (answer: Answer) => void
  reject!: (error: unknown) => void

  constructor() {
    this.answer = new Promise((resolve, reject) => {
      this.resolve = resolve
      this.reject = reject
    })
  }
}
