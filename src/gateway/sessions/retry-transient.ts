import { isTransient } from "../../runtime/transient.ts"
import { unavailable } from "../../contract/core/errors.ts"
import type { Clock } from "../../std/clock.ts"

const pauseMs = 100

/**
 * Tries again while an attempt fails with a transient error. When the time is over it does not wait
 * for the running attempt, which learns from `isLate` that it is late.
 */
export function retryTransient<T>(
  clock: Clock,
  milliseconds: number,
  attempt: (isLate: () => boolean) => Promise<T>,
): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    let late = false
    const isLate = () => late
    const timer = clock.after(milliseconds, () => {
      late = true
      reject(unavailable("no answer in time"))
    })
    const succeed = (value: T) => {
      timer.stop()
      resolve(value)
    }
    const fail = (error: Error) => {
      if (late || !isTransient(error)) {
        timer.stop()
        reject(error)
      } else clock.sleep(pauseMs).then(() => late || tryOn(), reject)
    }
    const tryOn = () => void attempt(isLate).then(succeed, fail)
    tryOn()
  })
}
