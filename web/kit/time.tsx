import { distance, exact, moment } from "./format.ts"

/** A moment in words, with the exact one as title. `none`: what stands where there is none. */
export function Time({ at, none = "–", apart = false }: { at: number | null; none?: string; apart?: boolean }) {
  if (at === null) return <span class="faint">{none}</span>
  return (
    <time dateTime={new Date(at * 1_000).toISOString()} title={exact(at)}>
      {apart ? distance(at) : moment(at)}
    </time>
  )
}
