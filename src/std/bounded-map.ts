/**
 * Puts a value under a key, as the newest of a map that holds `max` at most: beyond that the oldest
 * goes. A map keeps the order of insertion, so the key is taken out first.
 */
export function setNewest<Key, Value>(map: Map<Key, Value>, key: Key, value: Value, max: number): void {
  map.delete(key)
  map.set(key, value)
  if (map.size > max) map.delete(map.keys().next().value!)
}
