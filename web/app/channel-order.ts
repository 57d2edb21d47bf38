import type { ChannelResponse, Snowflake } from "../../client/contract.ts"

type Channel = Pick<ChannelResponse, "id" | "type" | "position" | "category_id">

export const isCategory = ({ type }: Channel) => type === "category"
/** Lists sort so. */
export const byPlace = (one: Channel, other: Channel) =>
  one.position - other.position || (BigInt(one.id) < BigInt(other.id) ? -1 : 1)

/** The channels without a category, or with one that the reader may not view; then each category with its own. */
export function groupsOf<C extends Channel>(channels: readonly C[]): C[][] {
  const sorted = channels.toSorted(byPlace)
  const categories = sorted.filter(isCategory)
  const others = sorted.filter(one => !isCategory(one))
  return [
    others.filter(({ category_id }) => !categories.some(({ id }) => id === category_id)),
    ...categories.map(category => [category, ...others.filter(({ category_id }) => category_id === category.id)]),
  ]
}

interface Place {
  readonly id: Snowflake
  readonly position: number
  readonly category_id: Snowflake
}

/** What has to be sent so that the channels stand in these groups: all are numbered from the first on. */
export function movesFor(groups: readonly (readonly Channel[])[]): Place[] {
  const categories = new Set(groups.flat().flatMap(one => (isCategory(one) ? [one.id] : [])))
  const places = groups.flatMap(group => {
    const [first] = group
    return group.map(channel => {
      if (first && isCategory(first)) return { channel, category_id: channel === first ? "0" : first.id }
      // A category that the reader may not view stays.
      const { category_id } = channel
      return { channel, category_id: category_id === null || categories.has(category_id) ? "0" : category_id }
    })
  })
  return places.flatMap(({ channel, category_id }, position) =>
    channel.position === position && (channel.category_id ?? "0") === category_id
      ? []
      : [{ id: channel.id, position, category_id }],
  )
}

/** The groups after one step; undefined: there is no further place. */
export function moved<C extends Channel>(
  groups: readonly (readonly C[])[],
  id: Snowflake,
  step: -1 | 1,
): C[][] | undefined {
  const next = groups.map(group => [...group])
  const at = next.findIndex(group => group.some(one => one.id === id))
  const group = next[at]
  if (!group) return undefined
  const i = group.findIndex(one => one.id === id)
  // A category takes its channels along; those without one stay first.
  if (isCategory(group[i]!)) {
    const other = next[at + step]
    if (at + step < 1 || !other) return undefined
    next[at + step] = group
    next[at] = other
    return next
  }
  const first = group[0] && isCategory(group[0]) ? 1 : 0
  const to = i + step
  const [channel] = group.splice(i, 1)
  if (to >= first && to <= group.length) group.splice(to, 0, channel!)
  else {
    const neighbour = next[at + step]
    if (!neighbour) return undefined
    if (step < 0) neighbour.push(channel!)
    else neighbour.splice(1, 0, channel!)
  }
  return next
}
