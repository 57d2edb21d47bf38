/**
 * How long searches take, from the request to the whole answer on a kept connection: by how
 * frequent what is looked for is, and who asks.
 */
import type { Starling } from "../harness.ts"
import { HttpConnection } from "../load/http-connection.ts"
import { Histogram } from "../statistics.ts"
import type { LatencySummary } from "../statistics.ts"
import { characterOf, vocabulary, wordOf, type Corpus } from "./corpus.ts"

export interface QueriesRun {
  readonly kind: string
  readonly latency: LatencySummary
  /** Of a page, on average. */
  readonly results: number
}

/** The same numbers in every run. */
function numbers(seed: number): () => number {
  let state = seed
  return () => {
    state = (state * 1_664_525 + 1_013_904_223) % 2 ** 32
    return state / 2 ** 32
  }
}

export const kindsOf = ({
  server,
  channels,
  readers,
}: Corpus): Record<string, (random: () => number) => Record<string, string>> => {
  const between = (random: () => number, least: number, most: number) => Math.floor(least + random() * (most - least))
  const word = (random: () => number, least: number, most: number) => wordOf(between(random, least, most))
  const author = readers[0]!.id
  return {
    "a frequent word": random => ({ query: word(random, 1, 20) }),
    "a word in a thousand messages": random => ({ query: word(random, 100, 2_000) }),
    "a rare word": random => ({ query: word(random, 10_000, vocabulary) }),
    "a word that nobody wrote": random => ({ query: `${word(random, 1, 1_000)}zzz` }),
    "two words": random => ({ query: `${word(random, 1, 100)} ${word(random, 100, 5_000)}` }),
    "two frequent words": random => ({ query: `${word(random, 1, 20)} ${word(random, 1, 20)}` }),
    "a phrase": random => ({ query: `"${word(random, 1, 60)} ${word(random, 1, 60)}"` }),
    "a phrase of three words": random => ({
      query: `"${word(random, 1, 20)} ${word(random, 1, 20)} ${word(random, 1, 20)}"`,
    }),
    "a word without another": random => ({ query: `${word(random, 1, 500)} -${word(random, 1, 20)}` }),
    "from: and a word": random => ({ query: `from:${author} ${word(random, 1, 3_000)}` }),
    "from: alone": () => ({ query: `from:writer_1` }),
    "in: and a word": random => ({ query: `in:${channels[between(random, 0, 9)]!} ${word(random, 1, 5_000)}` }),
    "one server and a word": random => ({ query: word(random, 1, 20_000), server_id: server }),
    "a month and a word": random => ({ query: `after:2024-07-19 before:2024-07-21 ${word(random, 1, 5_000)}` }),
    "three Chinese characters": random => ({
      query:
        characterOf(between(random, 1, 40)) + characterOf(between(random, 1, 40)) + characterOf(between(random, 1, 40)),
    }),
    "one Chinese character": random => ({ query: characterOf(between(random, 1, 3_000)) }),
    "has:link, which nothing has": () => ({ query: "has:link" }),
  }
}

export async function benchQueries(
  starling: Starling,
  corpus: Corpus,
  count: number,
  say: (what: string) => void,
): Promise<QueriesRun[]> {
  const connection = await HttpConnection.open(starling.url)
  const runs: QueriesRun[] = []
  const measure = async (kind: string, path: (random: () => number) => string, token: string) => {
    const histogram = new Histogram()
    const random = numbers(7)
    let results = 0
    // The first few find nothing prepared and nothing in memory.
    for (let i = -5; i < count; i++) {
      const asked = path(random)
      const began = performance.now()
      const { status, body } = await connection.get(asked, token)
      if (status !== 200) throw new Error(`${kind}: ${status} ${body.toString()} to ${asked}`)
      if (i < 0) continue
      histogram.record(performance.now() - began)
      const page = JSON.parse(body.toString()) as unknown[] | { results: unknown[] }
      results += Array.isArray(page) ? page.length : page.results.length
    }
    runs.push({ kind, latency: histogram.summary(), results: results / count })
    const { p50, p99, max } = runs.at(-1)!.latency
    say(
      `${kind}: p50 ${p50.toFixed(1)}, p99 ${p99.toFixed(1)}, most ${max.toFixed(1)} ms, ${(results / count).toFixed(1)} results`,
    )
  }
  for (const [kind, ask] of Object.entries(kindsOf(corpus)))
    for (const { token, servers } of corpus.readers)
      await measure(
        `${kind}, in ${servers} servers`,
        random => `/api/v1/search/messages?${new URLSearchParams(ask(random)).toString()}`,
        token,
      )
  const channel = corpus.channels[0]!
  const texts: Record<string, (random: () => number) => string> = {
    "a part of a frequent word": random => wordOf(1 + Math.floor(random() * 50)).slice(0, 4),
    "a part of a rare word": random => wordOf(20_000 + Math.floor(random() * 20_000)).slice(1, 6),
    "a text that nobody wrote": random => `${wordOf(1 + Math.floor(random() * 50))}zzz`,
    "two characters": random => wordOf(1 + Math.floor(random() * 5_000)).slice(0, 2),
    "two characters that nobody wrote": () => "qq",
  }
  for (const [kind, text] of Object.entries(texts))
    await measure(
      `in a channel: ${kind}`,
      random =>
        `/api/v1/channels/${channel}/messages/search?${new URLSearchParams({ content: text(random) }).toString()}`,
      corpus.readers[0]!.token,
    )
  connection.close()
  return runs
}
