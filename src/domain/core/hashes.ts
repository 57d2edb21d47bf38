/** Whether two hashes are the same, in a time that does not tell how much of them is. */
export function sameHash(one: string, other: string): boolean {
  if (one.length !== other.length) return false
  let difference = 0
  for (let i = 0; i < one.length; i++) difference |= one.charCodeAt(i) ^ other.charCodeAt(i)
  return difference === 0
}
