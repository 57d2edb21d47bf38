import { useEffect, useRef, useState } from "preact/hooks"
import type { MessageResponse, Snowflake } from "../../client/contract.ts"
import { me, ownId, watch } from "./session.ts"
import type { Timeline } from "./timeline.ts"

/** A message that a reader had before them, and how far below the edge of the scroller it stood. */
interface KeptPlace {
  readonly id: Snowflake
  readonly topPx: number
}

/** Where a channel opens; neither: with its newest messages. */
export interface Opening {
  /** The first message of others that had not been read. A line stands above it while one reads. */
  readonly firstUnread: Snowflake | undefined
  /** Where its reader was, who has been elsewhere since. */
  readonly place: KeptPlace | undefined
}

const places = new Map<Snowflake, KeptPlace>()
const maxPlaces = 100

/** Undefined: they were with the newest messages. */
export function keepPlace(channel: Snowflake, place: KeptPlace | undefined): void {
  places.delete(channel)
  if (!place) return
  places.set(channel, place)
  for (const oldest of places.keys()) if (places.size > maxPlaces) places.delete(oldest)
}

export const forgetPlaces = (): void => places.clear()

/** Where reading begins is known with what is unread; after a while a channel opens without. */
const withoutAfterMs = 3_000

/**
 * Decides once where a channel opens: at a message that somebody asked for, which `target` says;
 * where its reader was; at the first unread message, however far back; or at the newest. What has
 * to be read for that is shown by the timeline then. Undefined: not known yet.
 */
export function useOpening(timeline: Timeline, target: Snowflake | undefined): Opening | undefined {
  const { channel } = timeline
  const [opening, open] = useState<Opening>()
  const [hasWaited, setWaited] = useState(false)
  const isLooking = useRef(false)
  useEffect(() => {
    const timer = setTimeout(() => setWaited(true), withoutAfterMs)
    return () => clearTimeout(timer)
  }, [])
  // At once where nothing has to be asked: nothing else is shown in between.
  const found = useRef<Opening>(undefined)
  const isOpen = found.current !== undefined || opening !== undefined || isLooking.current
  const isReady = !isOpen && (watch("unread").isUnreadKnown || hasWaited)
  const newest = isReady ? watch(`channel ${channel}`).messages(channel) : undefined
  if (newest) {
    const place = target === undefined ? places.get(channel) : undefined
    const count = me().store.state.unread.get(channel)?.count ?? 0
    const others = ofOthers(newest)
    const isFar = count > others.length && !me().store.isRestored
    const near = count > 0 ? (others.at(-count) ?? others[0])?.id : undefined
    if (!isFar && place === undefined) {
      timeline.beginAt(near)
      found.current = { firstUnread: near, place: undefined }
    } else {
      isLooking.current = true
      const look = async () => {
        const isShown = target === undefined && place === undefined
        const firstUnread = (isFar ? await timeline.toUnread(isShown) : undefined) ?? near
        const isThere = place !== undefined && (await timeline.jump(place.id))
        open({ firstUnread, place: isThere ? place : undefined })
      }
      // Without an answer it opens with what there is.
      look().catch(() => open({ firstUnread: near, place: undefined }))
    }
  }
  return found.current ?? opening
}

const ofOthers = (messages: readonly MessageResponse[]) => {
  const own = ownId()
  return messages.filter(({ author_id }) => author_id !== own)
}
