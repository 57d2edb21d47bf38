/** A place where shards can live; it survives the restart of its worker. */
export interface Place {
  readonly host: string
  readonly slot: number
}

/**
 * Rendezvous hashing (Thaler and Ravishankar, 1998): every worker reckons by itself which place
 * wants a shard, all agree, and when a place comes or goes only the shards of that place move.
 */
export function wantedPlace<P extends Place>(shard: number, places: readonly P[]): P | undefined {
  let best: P | undefined
  let bestWeight = -1
  for (const place of places) {
    const weight = mix(hashText(`${place.host}/${place.slot}`) ^ Math.imul(shard + 1, 0x9e3779b1))
    if (weight > bestWeight || (weight === bestWeight && best !== undefined && key(place) < key(best))) {
      best = place
      bestWeight = weight
    }
  }
  return best
}

const key = (place: Place) => `${place.host}/${place.slot}`

function hashText(text: string): number {
  let hash = 0x811c9dc5
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  return hash
}

/** The finaliser of MurmurHash3 (Appleby): spreads every bit of the input over the output. */
function mix(hash: number): number {
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}
