/** Arrows go to the neighbour in that direction, as they lie on the screen; Home and End to the ends. */
export function moveAmong(board: HTMLElement | null, event: KeyboardEvent): void {
  const { key, target } = event
  if (!board || !(target instanceof HTMLButtonElement)) return
  const buttons = [...board.querySelectorAll("button")]
  const at = buttons.indexOf(target)
  const isTurned = getComputedStyle(board).direction === "rtl"
  const columns = Math.max(1, buttons.filter(one => one.offsetTop === buttons[0]!.offsetTop).length)
  const moves: Readonly<Record<string, number>> = {
    ArrowRight: isTurned ? -1 : 1,
    ArrowLeft: isTurned ? 1 : -1,
    ArrowDown: columns,
    ArrowUp: -columns,
    Home: -Infinity,
    End: Infinity,
  }
  const move = moves[key]
  if (move === undefined) return
  event.preventDefault()
  buttons[Math.max(0, Math.min(buttons.length - 1, at + move))]?.focus()
}
