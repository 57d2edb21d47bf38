import { signal } from "@preact/signals"
import { wordsOf } from "./api.ts"
import { useKeys } from "./keys.ts"
import { t } from "./text.ts"

interface Toast {
  readonly id: number
  readonly text: string
  readonly kind: "done" | "failed"
  readonly undo: (() => unknown) | undefined
}

const toasts = signal<readonly Toast[]>([])
const shownForMs = 8_000
const maxShown = 4
let lastId = 0

function show(text: string, kind: Toast["kind"], undo?: () => unknown): number {
  const id = ++lastId
  toasts.value = [...toasts.value, { id, text, kind, undo }].slice(-maxShown)
  setTimeout(() => dismiss(id), kind === "failed" ? 2 * shownForMs : shownForMs)
  return id
}

const dismiss = (id: number) => (toasts.value = toasts.value.filter(toast => toast.id !== id))

/** Says that something was done. `undo` takes it back. */
export const say = (text: string, undo?: () => unknown): number => show(text, "done", undo)
export const sayFailed = (error: unknown): number => show(wordsOf(error), "failed")

/** Does something and says how it went. Answers whether it was done. */
export async function attempt(work: () => Promise<unknown>, done?: string, undo?: () => unknown): Promise<boolean> {
  try {
    await work()
    if (done !== undefined) say(done, undo)
    return true
  } catch (error) {
    sayFailed(error)
    return false
  }
}

function takeBack({ id, undo }: Toast): void {
  dismiss(id)
  Promise.resolve(undo?.()).catch(sayFailed)
}

/**
 * Something that the server cannot take back is done a little later, so that the person can. It is
 * done at once when they leave the page.
 */
export function doSoon(
  text: string,
  work: (options: { keepalive: boolean }) => Promise<unknown>,
  undo: () => void,
): void {
  const run = (keepalive: boolean) => {
    clearTimeout(timer)
    waiting.delete(leave)
    dismiss(id)
    work({ keepalive }).catch((error: unknown) => {
      undo()
      sayFailed(error)
    })
  }
  const leave = () => run(true)
  const timer = setTimeout(() => run(false), soonMs)
  waiting.add(leave)
  const id = say(text, () => {
    clearTimeout(timer)
    waiting.delete(leave)
    undo()
  })
}
const soonMs = 6_000
const waiting = new Set<() => void>()
/** Does at once what waits still. */
export const finishWaiting = (): void => {
  for (const leave of waiting) leave()
}
addEventListener("pagehide", finishWaiting)

/** Where toasts are shown, and read aloud. */
export function Toasts() {
  const undoable = toasts.value.findLast(toast => toast.undo)
  useKeys(t("Messages"), [
    { key: "u", does: t("Undo what was done last"), run: undoable && (() => takeBack(undoable)) },
  ])
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map(toast => (
        <div key={toast.id} class={`toast ${toast.kind}`}>
          <span>{toast.text}</span>
          {toast.undo && (
            <button type="button" class="quiet" onClick={() => takeBack(toast)}>
              {t("Undo")} <kbd>u</kbd>
            </button>
          )}
          <button type="button" class="quiet icon" aria-label={t("Close")} onClick={() => dismiss(toast.id)}>
            ×
          </button>
        </div>
      ))}
    </div>
  )
}
