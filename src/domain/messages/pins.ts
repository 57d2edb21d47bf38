/** How many messages of a channel are pinned, and when the latest was, in Unix milliseconds. */
export interface PinsState {
  count: number
  latest: number
}
