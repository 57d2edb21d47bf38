import { signal } from "@preact/signals"
import type { ComponentChildren } from "preact"
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks"
import { wordsOf } from "./api.ts"
import { TextField } from "./forms.tsx"
import { t } from "./text.ts"
import { sayFailed } from "./toasts.tsx"

interface DialogOptions {
  readonly title: string
  readonly onClose: () => void
  readonly children: ComponentChildren
  readonly wide?: boolean
}

/** An element and what is around it that takes the focus: what a dialog is about may be gone when it closes. */
function focusable(element: Element | null): HTMLElement[] {
  const found: HTMLElement[] = element instanceof HTMLElement && element !== document.body ? [element] : []
  for (
    let up = element?.parentElement?.closest<HTMLElement>("[tabindex]");
    up;
    up = up.parentElement?.closest<HTMLElement>("[tabindex]")
  )
    found.push(up)
  return found
}

/** Above everything else: the rest of the page is inert, Escape closes it, and the focus returns to where it was. */
export function Dialog({ title, onClose, children, wide = false }: DialogOptions) {
  const element = useRef<HTMLDialogElement>(null)
  const heading = useId()
  // At once: the next key is about it already.
  useLayoutEffect(() => {
    const { current } = element
    const before = focusable(document.activeElement)
    current?.showModal()
    const first = current?.querySelector<HTMLElement>("[data-first], input, select, textarea")
    ;(first ?? current?.querySelector<HTMLElement>("button"))?.focus()
    return () => {
      // Until it is closed nothing outside of it takes the focus.
      current?.close()
      // What shows only with the focus cannot take it back: what is around it can.
      for (const one of before) {
        one.focus()
        if (document.activeElement === one) break
      }
    }
  }, [])
  return (
    <dialog
      ref={element}
      class={wide ? "wide" : undefined}
      aria-labelledby={heading}
      onCancel={event => {
        event.preventDefault()
        onClose()
      }}
      onClick={event => {
        if (event.target === element.current) onClose()
      }}
    >
      <div class="dialog">
        <h2 id={heading}>{title}</h2>
        {children}
      </div>
    </dialog>
  )
}

interface Question {
  readonly title: string
  /** What it will do, and to how many. */
  readonly will: ComponentChildren
  /** What the button says that does it. */
  readonly does: string
  readonly isDangerous?: boolean
  /** What has to be typed first. */
  readonly typed?: string
  /** Asks for a reason too, which may be left out; `hint` says who reads it. */
  readonly reason?: { readonly hint: string; readonly maxLength: number }
  /** The dialog stays open, and says why, when this fails. */
  readonly work: (reason: string) => Promise<unknown>
}

const question = signal<Question | undefined>(undefined)

/** Says what will happen, and does it if the person wants it. */
export function ask(asked: Question): void {
  question.value = asked
}

type Presented = (onClose: () => void) => ComponentChildren
const presented = signal<Presented | undefined>(undefined)

/**
 * Shows a dialog, whose code is loaded when somebody first asks for it. It stays when what asked for
 * it is hidden or gone, such as the buttons of a message.
 */
export function present(load: () => Promise<Presented>): void {
  load().then(dialog => void (presented.value = dialog), sayFailed)
}

/** Where questions are asked, and dialogs shown. */
export function Questions() {
  const asked = question.value
  return (
    <>
      {presented.value?.(() => (presented.value = undefined))}
      {asked && <Asked key={asked.title} {...asked} onClose={() => (question.value = undefined)} />}
    </>
  )
}

function Asked({ title, will, does, isDangerous, typed, reason, work, onClose }: Question & { onClose: () => void }) {
  const [written, write] = useState("")
  const [why, explain] = useState("")
  const [failure, fail] = useState<string>()
  const [isBusy, setBusy] = useState(false)
  const input = useId()
  const submit = async (event: Event) => {
    event.preventDefault()
    if (isBusy) return
    setBusy(true)
    try {
      await work(why.trim())
      onClose()
    } catch (error) {
      fail(wordsOf(error))
      setBusy(false)
    }
  }
  return (
    <Dialog title={title} onClose={onClose}>
      <form onSubmit={event => void submit(event)}>
        <div class="will">{will}</div>
        {typed !== undefined && (
          <p class="field">
            <label for={input}>{t("Type {word} to go on", { word: typed })}</label>
            <input id={input} value={written} autocomplete="off" onInput={event => write(event.currentTarget.value)} />
          </p>
        )}
        {reason && (
          <TextField
            label={t("Reason")}
            value={why}
            onValue={explain}
            hint={reason.hint}
            maxLength={reason.maxLength}
          />
        )}
        {failure && (
          <p role="alert" class="failure">
            {failure}
          </p>
        )}
        <p class="buttons">
          {/* What is dangerous is not done by pressing Enter at once. */}
          <button type="button" data-first={typed === undefined && isDangerous ? true : undefined} onClick={onClose}>
            {t("Cancel")}
          </button>
          <button
            type="submit"
            class={isDangerous ? "danger" : "strong"}
            data-first={typed === undefined && !isDangerous ? true : undefined}
            disabled={isBusy || (typed !== undefined && written !== typed)}
          >
            {does}
          </button>
        </p>
      </form>
    </Dialog>
  )
}
