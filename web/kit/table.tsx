import { signal } from "@preact/signals"
import type { ComponentChildren } from "preact"
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks"
import { useKeys, type KeyBinding } from "./keys.ts"
import { t } from "./text.ts"

/**
 * A list of any length: rows have one height, and only those that can be seen are in the document.
 * One row is active; `j` and `k` and the arrows change it, and it holds the focus.
 */
export interface Column<T> {
  readonly title: string
  readonly cell: (row: T) => ComponentChildren
  readonly kind?: "number"
  /** How wide it is; absent: it takes what the others leave. */
  readonly rem?: number
  /** Left out on smaller screens. */
  readonly from?: "medium" | "large"
}

interface TableOptions<T> {
  /** What the list is of, for those who do not see it. */
  readonly caption: string
  readonly columns: readonly Column<T>[]
  readonly rows: readonly T[]
  readonly keyOf: (row: T) => string
  /** Where a row leads to; else `onOpen` is what opening it does. */
  readonly hrefOf?: (row: T) => string
  readonly onOpen?: (row: T) => void
  readonly onActive?: (row: T | undefined) => void
  /** More keys, which are about the active row. */
  readonly keysFor?: (row: T | undefined) => readonly KeyBinding[]
  readonly onEnd?: () => void
  readonly isLoading?: boolean
  readonly empty?: ComponentChildren
}

const narrow = matchMedia("(max-width: 40rem)")
const isNarrow = signal(narrow.matches)
narrow.addEventListener("change", () => (isNarrow.value = narrow.matches))

const spare = 12

export function Table<T>({ caption, columns, rows, keyOf, isLoading, empty, ...options }: TableOptions<T>) {
  const { hrefOf, onOpen, onActive, keysFor, onEnd } = options
  const rowPx = isNarrow.value ? 64 : 46
  const body = useRef<HTMLTableSectionElement>(null)
  const [active, setActive] = useState(0)
  const wantsFocus = useRef(false)
  /** The row that is to have the focus may not be in the document yet, and the one that had it not any more. */
  const isMoving = useRef(false)
  const [first, last] = useVisible(body, rows.length, rowPx)

  const current = Math.min(active, rows.length - 1)
  const move = (to: number) => {
    if (rows.length === 0) return
    const next = Math.max(0, Math.min(rows.length - 1, to))
    wantsFocus.current = true
    isMoving.current = true
    setActive(next)
    reveal(body.current, next, rowPx)
  }
  const row = rows[current]
  const open = row && (hrefOf ? () => (location.hash = hrefOf(row)) : onOpen && (() => onOpen(row)))
  useKeys(caption, [
    { key: "j", does: t("Next row"), run: () => move(wantsFocus.current ? current + 1 : current) },
    { key: "k", does: t("Row before"), run: () => move(current - 1) },
    ...(hrefOf || onOpen ? [{ key: "Enter", does: t("Open the row"), run: open }] : []),
    // The row that had the focus may have left the document while the next one is not in it yet.
    { key: "End", does: t("Last row"), run: wantsFocus.current ? () => move(rows.length - 1) : undefined },
    { key: "Home", does: t("First row"), run: wantsFocus.current ? () => move(0) : undefined },
    ...(keysFor?.(row) ?? []),
  ])

  useEffect(() => onActive?.(row), [row])

  // The row may come into the document only now; and one that took the place of another keeps the focus.
  useLayoutEffect(() => {
    if (!wantsFocus.current || document.querySelector("dialog[open]")) return
    const element = body.current?.querySelector<HTMLElement>(`[data-row="${current}"]`)
    const { activeElement } = document
    const isElsewhere = activeElement !== document.body && !body.current?.contains(activeElement)
    if (element && (isMoving.current || !isElsewhere) && !element.contains(activeElement))
      element.focus({ preventScroll: true })
  })

  useEffect(() => {
    if (onEnd && last >= rows.length - 2 * spare) onEnd()
  }, [last, rows.length, onEnd])

  if (rows.length === 0 && !isLoading) return <>{empty}</>
  const shown = rows.slice(first, last)
  const onKeyDown = (event: KeyboardEvent) => {
    const moves: Record<string, number> = {
      ArrowDown: current + 1,
      ArrowUp: current - 1,
      Home: 0,
      End: rows.length - 1,
    }
    const to = moves[event.key]
    if (to === undefined || !(event.target instanceof HTMLTableRowElement)) return
    event.preventDefault()
    move(to)
  }
  return (
    <>
      <table class="list" aria-rowcount={rows.length + 1} style={{ "--row": `${rowPx}px` }}>
        <caption class="unseen">{caption}</caption>
        <colgroup>
          {columns.map(({ title, rem, from }) => (
            <col
              key={title}
              class={from && `from-${from}`}
              style={rem === undefined ? undefined : { width: `${rem}rem` }}
            />
          ))}
        </colgroup>
        <thead>
          <tr aria-rowindex={1}>
            {columns.map(column => (
              <th key={column.title} scope="col" class={classOf(column)}>
                {column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody ref={body} onKeyDown={onKeyDown}>
          {first > 0 && <Spacer heightPx={first * rowPx} />}
          {shown.map((row, i) => {
            const at = first + i
            return (
              <tr
                key={keyOf(row)}
                data-row={at}
                aria-rowindex={at + 2}
                tabIndex={at === current ? 0 : -1}
                class={at === current ? "active" : undefined}
                onFocus={() => {
                  wantsFocus.current = true
                  isMoving.current = false
                  setActive(at)
                }}
                onBlur={() => (wantsFocus.current = isMoving.current)}
                onClick={onOpen && (() => onOpen(row))}
              >
                {columns.map((column, n) => (
                  <td key={column.title} class={classOf(column, n === 0)}>
                    {n === 0 ? (
                      <Opening {...options} row={row} isActive={at === current} cell={column.cell} />
                    ) : (
                      column.cell(row)
                    )}
                  </td>
                ))}
              </tr>
            )
          })}
          {last < rows.length && <Spacer heightPx={(rows.length - last) * rowPx} />}
        </tbody>
      </table>
      {isLoading && <p class="loading">{t("Loading …")}</p>}
    </>
  )
}

interface OpeningOptions<T> extends Pick<TableOptions<T>, "hrefOf" | "onOpen"> {
  readonly row: T
  readonly isActive: boolean
  readonly cell: (row: T) => ComponentChildren
}

/** The first cell of a row opens it. A click on the row does, too, so the button needs nothing of its own. */
function Opening<T>({ hrefOf, onOpen, row, isActive, cell }: OpeningOptions<T>) {
  const tabIndex = isActive ? 0 : -1
  if (hrefOf)
    return (
      <a href={hrefOf(row)} tabIndex={tabIndex}>
        {cell(row)}
      </a>
    )
  if (!onOpen) return <>{cell(row)}</>
  return (
    <button type="button" class="open" tabIndex={tabIndex}>
      {cell(row)}
    </button>
  )
}

const classOf = <T,>({ kind, from }: Column<T>, isFirst = false) =>
  [kind, from && `from-${from}`, isFirst && "first"].filter(Boolean).join(" ") || undefined

/** One cell: more columns than can be seen would take width. */
function Spacer({ heightPx }: { heightPx: number }) {
  return (
    <tr aria-hidden="true" class="spacer">
      <td style={{ height: `${heightPx}px` }} />
    </tr>
  )
}

/** The rows that can be seen, and some around them. */
function useVisible(body: { readonly current: HTMLElement | null }, count: number, rowPx: number): [number, number] {
  const [range, setRange] = useState<[number, number]>([0, 40])
  useLayoutEffect(() => {
    const look = () => {
      const top = body.current?.getBoundingClientRect().top ?? 0
      const first = Math.max(0, Math.floor(-top / rowPx) - spare)
      const last = Math.ceil((innerHeight - top) / rowPx) + spare
      setRange(before => (before[0] === first && before[1] === last ? before : [first, last]))
    }
    look()
    addEventListener("scroll", look, { passive: true })
    addEventListener("resize", look)
    return () => {
      removeEventListener("scroll", look)
      removeEventListener("resize", look)
    }
  }, [count > 0, rowPx])
  const first = Math.min(range[0], Math.max(0, count - 1))
  return [first, Math.max(first, Math.min(count, range[1]))]
}

/** Scrolls so far that the row can be seen, with one more before or after it. */
function reveal(body: HTMLElement | null, row: number, rowPx: number): void {
  if (!body) return
  const top = body.getBoundingClientRect().top + row * rowPx
  const headerPx = 64
  if (top < headerPx + rowPx) scrollBy({ top: top - headerPx - rowPx })
  else if (top + 2 * rowPx > innerHeight) scrollBy({ top: top + 2 * rowPx - innerHeight })
}
