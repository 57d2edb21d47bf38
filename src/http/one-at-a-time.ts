/**
 * Does the same for one key once at a time: whoever asks meanwhile shares the next one with all others who do, so that nobody is
 * told what was so before he asked.
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
