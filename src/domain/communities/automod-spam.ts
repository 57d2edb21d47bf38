import type { AutomodConfig } from "../../contract/communities/automod.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"
import type { Matcher, RecentPost } from "./automod-match.ts"
import { perMessage } from "./automod-looks.ts"
import { folded } from "./automod-text.ts"

/** How much of a text is compared with others. */
const compared = 500

export const recentPost = (id: Snowflake, at: number, content: string): RecentPost => ({
  id,
  at,
  text: folded(content.slice(0, 2 * compared))
    .replace(/\s+/g, " ")
    .trim()
    .slice(0, compared),
})

/** With one more in its place, or with another text of one of them; the oldest are forgotten. */
export function withPost(posts: readonly RecentPost[], post: RecentPost): readonly RecentPost[] {
  if (posts.some(({ id }) => id === post.id))
    return posts.map(known => (known.id === post.id ? { ...known, text: post.text } : known))
  const [oldest, newest] = [posts[0], posts.at(-1)]
  // It was forgotten before and is only edited: it takes nobody's place.
  if (oldest && post.at < oldest.at) return posts
  const since = Math.max(post.at, newest?.at ?? 0) - limits.automod.windowSeconds * 1000
  return [...posts, post]
    .filter(({ at }) => at > since)
    .toSorted((a, b) => a.at - b.at)
    .slice(-limits.automod.postsRemembered)
}

/** How often which two characters follow one another. */
function pairsOf(text: string): Map<string, number> {
  const pairs = new Map<string, number>()
  for (let i = 1; i < text.length; i++) {
    const pair = text.slice(i - 1, i + 1)
    pairs.set(pair, (pairs.get(pair) ?? 0) + 1)
  }
  return pairs
}

/**
 * Whether two texts are alike, by the pairs of characters that they share (Dice's coefficient),
 * from 0 to 1.
 */
function likeness(text: string, pairs: ReadonlyMap<string, number>, other: string): number {
  if (text === other) return 1
  if (text.length < 2 || other.length < 2) return 0
  let shared = 0
  for (const [pair, count] of pairsOf(other)) shared += Math.min(count, pairs.get(pair) ?? 0)
  return (2 * shared) / (text.length + other.length - 2)
}

/** How alike the message is to those before it, each compared when somebody first asks. */
const likenesses = perMessage(judged => {
  const { text } = recentPost("0", judged.now, judged.text ?? judged.content)
  const pairs = pairsOf(text)
  const known = new Map<RecentPost, number>()
  return (post: RecentPost): number => {
    const like = known.get(post) ?? likeness(text, pairs, post.text)
    known.set(post, like)
    return like
  }
})

export function messageSpam(config: AutomodConfig<"message_spam">): Matcher {
  const { max_messages, window_seconds, duplicate_threshold, duplicate_window_seconds, similarity_threshold } = config
  return judged => {
    const { edited, recent, now } = judged
    const others = recent.filter(({ id }) => id !== edited)
    const since = (seconds: number) => (post: RecentPost) => post.at > now - seconds * 1000
    const count = 1 + others.filter(since(window_seconds)).length
    // An edit is no further message.
    if (edited === undefined && count > max_messages)
      return { matched: judged.content, severity: "medium", metadata: { messages: count } }
    const candidates = others.filter(since(duplicate_window_seconds))
    if (candidates.length + 1 < duplicate_threshold) return undefined
    const likenessOf = likenesses(judged)
    const duplicates = 1 + candidates.filter(post => likenessOf(post) >= similarity_threshold).length
    return duplicates >= duplicate_threshold
      ? { matched: judged.content, severity: "medium", metadata: { duplicates } }
      : undefined
  }
}
