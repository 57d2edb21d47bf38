/**
 * Gathers what is asked within one turn of the event loop, so that it costs one command. Nothing waits for a timer: a
 * turn with one question sends one.
 */
export function inBatches<Question, Answer>(
  send: (questions: readonly Question[]) => Promise<readonly Answer[]>,
  most: number,
): (question: Question) => Promise<Answer> {
  interface Waiting {
    resolve(answer: Answer): void
    reject(error: unknown): void
  }
  let questions: Question[] = []
  let waiting: Waiting[] = []

  function flush(): void {
    const asked = questions
    const askers = waiting
    if (asked.length === 0) return
    questions = []
    waiting = []
    send(asked).then(
      answers => askers.forEach((asker, i) => asker.resolve(answers[i]!)),
      (error: unknown) => askers.forEach(asker => asker.reject(error)),
    )
  }

  return question =>
    new Promise((resolve, reject) => {
      // Sockets that became readable together are served before the next check phase.
      if (questions.push(question) === 1) setImmediate(flush)
      waiting.push({ resolve, reject })
      if (questions.length === most) flush()
    })
}
