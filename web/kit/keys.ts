import { signal } from "@preact/signals"
import { useLayoutEffect, useRef } from "preact/hooks"

/** What a key does here. A key is written as the browser names it; two in a row as `g n`. */
export interface KeyBinding {
  readonly key: string
  readonly does: string
  /** Nothing happens while it is absent; the key is listed still. */
  readonly run?: (() => void) | undefined
}

interface Group {
  readonly title: string
  readonly bindings: readonly KeyBinding[]
}

const groups = signal<readonly { current: Group }[]>([])
/** The groups that are in force, the latest last. */
export const keyGroups = (): Group[] => groups.value.map(({ current }) => current)

const storageKey = "starling.keys"
/** Some people speak to their computer, and it types: for them keys without a modifier can be off. */
export const areKeysOn = signal(localStorage.getItem(storageKey) !== "off")
export function switchKeys(on: boolean): void {
  areKeysOn.value = on
  if (on) localStorage.removeItem(storageKey)
  else localStorage.setItem(storageKey, "off")
}

/** Binds keys while the component is shown. Of two that bind the same key the later one has it. */
export function useKeys(title: string, bindings: readonly KeyBinding[]): void {
  const group = useRef<Group>({ title, bindings })
  group.current = { title, bindings }
  // In force as soon as it is shown.
  useLayoutEffect(() => {
    groups.value = [...groups.value, group]
    return () => {
      groups.value = groups.value.filter(one => one !== group)
    }
  }, [])
}

const isTyping = (target: EventTarget | null) =>
  target instanceof HTMLElement &&
  (target.isContentEditable || target.closest("input:not([type=checkbox], [type=radio]), textarea, select") !== null)

const sequenceWithinMs = 1_200
let first: { key: string; atMs: number } | undefined

addEventListener("keydown", event => {
  if (!areKeysOn.value || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return
  if (isTyping(event.target) || document.querySelector("dialog[open]")) return
  const pressed = first && performance.now() - first.atMs < sequenceWithinMs ? `${first.key} ${event.key}` : event.key
  first = undefined
  const bindings = keyGroups()
    .reverse()
    .flatMap(group => group.bindings)
  const found =
    bindings.find(({ key, run }) => key === pressed && run) ?? bindings.find(({ key, run }) => key === event.key && run)
  // A button or link that has the focus takes Enter itself.
  if (found?.run && !(event.key === "Enter" && event.target instanceof Element && event.target.closest("a, button"))) {
    event.preventDefault()
    found.run()
  } else if (bindings.some(({ key }) => key.startsWith(`${event.key} `)))
    first = { key: event.key, atMs: performance.now() }
})
