/** A promise that is rejected already. Who has it may go away without waiting: that is no error of anybody's. */
export function rejected(error: Error): Promise<never> {
  const promise = Promise.reject(error)
  promise.catch(() => {})
  return promise
}
