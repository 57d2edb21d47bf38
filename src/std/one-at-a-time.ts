/**
 * Does the same work for one key once at a time. Callers that come while it runs share the next
 * run, so that nobody gets a result that began before they asked.
 */
export function oneAtATime<Result>(work: (key: string) => Promise<Result>): (key: string) => Promise<Result> {
  const underWay = new Map<string, Promise<Result>>()
  const following = new Map<string, Promise<Result>>()
  const start = (key: string): Promise<Result> => {
    const result = work(key).finally(() => underWay.delete(key))
    underWay.set(key, result)
    return result
  }
  return key => {
    const current = underWay.get(key)
    if (!current) return start(key)
    let next = following.get(key)
    if (!next) {
      const begin = () => {
        following.delete(key)
        return start(key)
      }
      next = current.then(begin, begin)
      following.set(key, next)
    }
    return next
  }
}
