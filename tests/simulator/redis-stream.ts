/** A stream of Redis: its entries, and the nodes in which Redis packs them, because an approximate trim drops whole nodes. */
export type StreamEntry = [id: string, fields: string[]]

interface Entry {
  readonly ms: number
  readonly seq: number
  /** As clients are given it; one array for all of them. */
  readonly shown: StreamEntry
}

interface Node {
  readonly firstMs: number
  readonly firstSeq: number
  lastMs: number
  lastSeq: number
  count: number
  bytes: number
  /** The first entry's fields and values: entries with the same fields do not repeat them. */
  readonly first: readonly string[]
}

/** Redis' defaults of `stream-node-max-bytes` and `stream-node-max-entries`. */
const maxNodeBytes = 4096
const maxNodeEntries = 100
/** What one approximate trim removes at most. */
const maxTrimmed = 100 * maxNodeEntries

export class Stream {
  expiresAt = 0
  lastMs = 0
  lastSeq = 0
  #entries: Entry[] = []
  #nodes: Node[] = []
  /** How many entries stand in nodes; the rest is packed when somebody trims. */
  #packed = 0

  get length(): number {
    return this.#entries.length
  }

  mayAppend(ms: number, seq: number): boolean {
    return ms > this.lastMs || (ms === this.lastMs && seq > this.lastSeq)
  }

  append(ms: number, seq: number, fields: string[]): string {
    const id = `${ms}-${seq}`
    this.#entries.push({ ms, seq, shown: [id, fields] })
    this.lastMs = ms
    this.lastSeq = seq
    return id
  }

  /** The number of entries up to an id, that id included: where the first entry after it stands. */
  indexAfter(ms: number, seq: number): number {
    const entries = this.#entries
    let high = entries.length
    if (high === 0) return 0
    const last = entries[high - 1]!
    if (last.ms < ms || (last.ms === ms && last.seq <= seq)) return high
    let low = 0
    while (low < high) {
      const middle = (low + high) >>> 1
      const entry = entries[middle]!
      if (entry.ms < ms || (entry.ms === ms && entry.seq <= seq)) low = middle + 1
      else high = middle
    }
    return low
  }

  slice(from: number, to: number): StreamEntry[] {
    const found: StreamEntry[] = []
    for (let i = from; i < to; i++) found.push(this.#entries[i]!.shown)
    return found
  }

  /** Drops the nodes that lie wholly before an id. @returns how many entries went */
  trim(ms: number, seq: number): number {
    this.#pack()
    let nodes = 0
    let trimmed = 0
    for (const { lastMs, lastSeq, count } of this.#nodes) {
      if (trimmed + count > maxTrimmed || lastMs > ms || (lastMs === ms && lastSeq >= seq)) break
      nodes++
      trimmed += count
    }
    if (nodes > 0) {
      this.#nodes.splice(0, nodes)
      this.#entries.splice(0, trimmed)
      this.#packed -= trimmed
    }
    return trimmed
  }

  copy(): Stream {
    const copy = new Stream()
    copy.expiresAt = this.expiresAt
    copy.lastMs = this.lastMs
    copy.lastSeq = this.lastSeq
    copy.#entries = this.#entries.slice()
    copy.#nodes = this.#nodes.map(node => ({ ...node }))
    copy.#packed = this.#packed
    return copy
  }

  /** As `streamAppendItem` of Redis 7 does entry by entry. */
  #pack(): void {
    for (; this.#packed < this.#entries.length; this.#packed++) {
      const { ms, seq, shown } = this.#entries[this.#packed]!
      const fields = shown[1]
      let length = 0
      for (const text of fields) length += Buffer.byteLength(text)
      let node = this.#nodes.at(-1)
      let sameFields = true
      if (node === undefined || node.bytes + length >= maxNodeBytes || node.count >= maxNodeEntries) {
        // Header and end, then: live entries, deleted entries, count of fields, the fields, an end mark.
        let bytes = 7 + 2 + 2 + integerBytes(fields.length / 2) + 2
        for (let i = 0; i < fields.length; i += 2) bytes += textBytes(fields[i]!)
        node = { firstMs: ms, firstSeq: seq, lastMs: ms, lastSeq: seq, count: 0, bytes, first: fields }
        this.#nodes.push(node)
      } else {
        sameFields = node.first.length === fields.length
        for (let i = 0; sameFields && i < fields.length; i += 2) sameFields = node.first[i] === fields[i]
      }
      const count = fields.length / 2
      let bytes = 2 + integerBytes(ms - node.firstMs) + integerBytes(seq - node.firstSeq)
      if (!sameFields) bytes += integerBytes(count)
      for (let i = sameFields ? 1 : 0; i < fields.length; i += sameFields ? 2 : 1) bytes += textBytes(fields[i]!)
      bytes += integerBytes(count + 3 + (sameFields ? 0 : count + 1))
      node.bytes += bytes
      node.count++
      node.lastMs = ms
      node.lastSeq = seq
    }
  }
}

/** What an integer takes in a listpack. */
function integerBytes(n: number): number {
  if (n >= 0 && n <= 127) return 2
  if (n >= -4096 && n <= 4095) return 3
  if (n >= -32_768 && n <= 32_767) return 4
  if (n >= -8_388_608 && n <= 8_388_607) return 5
  if (n >= -2_147_483_648 && n <= 2_147_483_647) return 6
  return 10
}

const canonicalInteger = /^(0|-?[1-9]\d{0,18})$/

/** What a text takes in a listpack; one that reads as an integer is kept as one. */
function textBytes(text: string): number {
  if (text.length <= 20 && canonicalInteger.test(text)) {
    const n = Number(text)
    if (Number.isSafeInteger(n) || BigInt.asIntN(64, BigInt(text)) === BigInt(text)) return integerBytes(n)
  }
  const bytes = Buffer.byteLength(text)
  const encoded = bytes + (bytes < 64 ? 1 : bytes < 4096 ? 2 : 5)
  return encoded + (encoded <= 127 ? 1 : encoded < 16_383 ? 2 : encoded < 2_097_151 ? 3 : encoded < 268_435_455 ? 4 : 5)
}
