import { useKeys } from "../kit/keys.ts"
import { t } from "../kit/text.ts"

type Scroller = { readonly current: HTMLElement | null }

const rowOf = (element: Element | null) => element?.closest<HTMLElement>(".message[id]") ?? undefined
/** The message that has the focus, or in which something has. */
const focusedRow = () => rowOf(document.activeElement)
export const focusedMessage = (): string | undefined => focusedRow()?.id.replace("message-", "")

const field = () => document.querySelector<HTMLElement>(".composer textarea")

/** Messages by the keyboard: arrows go from one to the next, Enter to what can be done with it, Escape back. */
export function useMessageKeys(scroller: Scroller) {
  const step = (by: number) => {
    const rows = [...(scroller.current?.querySelectorAll<HTMLElement>(".message[id]") ?? [])]
    const before = focusedRow()
    const at = before ? rows.indexOf(before) + by : rows.findLastIndex(isInSight)
    rows[Math.max(0, Math.min(rows.length - 1, at))]?.focus()
  }
  const isInSight = (row: HTMLElement) =>
    row.getBoundingClientRect().top < (scroller.current?.getBoundingClientRect().bottom ?? 0)

  useKeys(t("Reading"), [
    { key: "j", does: t("Next message"), run: () => step(1) },
    { key: "k", does: t("Message before"), run: () => step(-1) },
    { key: "↑ ↓", does: t("From message to message") },
    { key: "Enter", does: t("What to do with this message") },
    { key: "Esc", does: t("To the messages, and back to the field") },
  ])

  const onKeyDown = (event: KeyboardEvent) => {
    const { target, key } = event
    if (!(target instanceof HTMLElement) || event.defaultPrevented) return
    const isRow = target.matches(".message") || target === scroller.current
    const bar = target.parentElement?.matches(".actions") ? target.parentElement : undefined
    const moves: Readonly<Record<string, number>> = { ArrowUp: -1, ArrowDown: 1, Home: -Infinity, End: Infinity }
    if (isRow && moves[key] !== undefined) step(moves[key])
    else if (isRow && key === "Enter") {
      if (target === scroller.current) step(0)
      else target.querySelector<HTMLElement>(".actions button")?.focus()
    } else if (isRow && key === "Escape") field()?.focus()
    else if (bar && key === "Escape") rowOf(bar)?.focus()
    else if (bar && (key === "ArrowLeft" || key === "ArrowRight")) alongBar(bar, target, key)
    else return
    event.preventDefault()
  }
  return { onKeyDown, toMessages: () => step(0) }
}

function alongBar(bar: HTMLElement, from: HTMLElement, key: "ArrowLeft" | "ArrowRight"): void {
  const buttons = [...bar.querySelectorAll<HTMLElement>(":scope > button")]
  const isOn = (key === "ArrowRight") === (getComputedStyle(bar).direction === "ltr")
  const to = buttons.indexOf(from) + (isOn ? 1 : -1)
  buttons[(to + buttons.length) % buttons.length]?.focus()
}
