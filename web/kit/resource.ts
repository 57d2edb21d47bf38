import { useCallback, useEffect, useRef, useState } from "preact/hooks"
import { isAborted } from "./api.ts"

export interface Resource<T> {
  /** What was loaded last; it stays while it is loaded again. */
  readonly data: T | undefined
  /** Why the last load failed. */
  readonly error: unknown
  readonly isLoading: boolean
  reload(): void
  /** Changes what is shown before the server is asked again. */
  set(change: (data: T) => T): void
}

interface ResourceOptions {
  /** Loads again so often, while the page is looked at. What takes longer is waited for. */
  readonly everyMs?: number
}

/** Loads what a view shows, again whenever one of `inputs` changes; what is no longer wanted is aborted. */
export function useResource<T>(
  load: (signal: AbortSignal) => Promise<T>,
  inputs: readonly unknown[],
  { everyMs }: ResourceOptions = {},
): Resource<T> {
  const [state, setState] = useState<{ data?: T; error?: unknown; isLoading: boolean }>({ isLoading: true })
  const [round, setRound] = useState(0)
  const key = JSON.stringify(inputs)
  const keyBefore = useRef(key)
  const isUnderWay = useRef(false)

  useEffect(() => {
    const abort = new AbortController()
    isUnderWay.current = true
    const isAnother = keyBefore.current !== key
    keyBefore.current = key
    setState(before => (isAnother ? { isLoading: true } : { ...before, isLoading: true }))
    load(abort.signal).then(
      data => {
        if (abort.signal.aborted) return
        isUnderWay.current = false
        setState({ data, isLoading: false })
      },
      (error: unknown) => {
        if (abort.signal.aborted) return
        isUnderWay.current = false
        if (!isAborted(error)) setState(before => ({ ...before, error, isLoading: false }))
      },
    )
    return () => abort.abort()
  }, [key, round])

  useEffect(() => {
    if (everyMs === undefined) return
    const timer = setInterval(() => {
      if (!document.hidden && !isUnderWay.current) setRound(n => n + 1)
    }, everyMs)
    return () => clearInterval(timer)
  }, [everyMs])

  return {
    data: state.data,
    error: state.error,
    isLoading: state.isLoading,
    reload: useCallback(() => setRound(n => n + 1), []),
    set: useCallback(
      (change: (data: T) => T) =>
        setState(before => (before.data === undefined ? before : { ...before, data: change(before.data) })),
      [],
    ),
  }
}

export interface Pages<T> {
  readonly items: readonly T[]
  readonly error: unknown
  readonly isLoading: boolean
  /** There may be more behind the last one. */
  readonly hasMore: boolean
  more(): void
  reload(): void
  set(change: (items: readonly T[]) => readonly T[]): void
}

/**
 * A long list, a page at a time: the next one is loaded when somebody comes near the end. Rows that
 * come and go meanwhile move the others, so each page is asked for where the list ends here, and
 * what is in it already is left out. Where the server goes on behind a row, `last` is that row.
 */
export function usePages<T>(
  load: (page: { limit: number; offset: number }, signal: AbortSignal, last: T | undefined) => Promise<readonly T[]>,
  keyOf: (item: T) => string,
  inputs: readonly unknown[],
  /** As many as the server gives at once. */
  pageSize = 200,
): Pages<T> {
  const [state, setState] = useState<{ items: readonly T[]; error?: unknown; isLoading: boolean; hasMore: boolean }>({
    items: [],
    isLoading: true,
    hasMore: false,
  })
  const [round, setRound] = useState(0)
  const key = JSON.stringify(inputs)
  const keyBefore = useRef(key)
  const under = useRef<AbortController>(undefined)
  const skipped = useRef(0)
  const known = useRef<Set<string>>(new Set())

  const ask = (before: readonly T[]) => {
    under.current?.abort()
    const abort = (under.current = new AbortController())
    load({ limit: pageSize, offset: before.length + skipped.current }, abort.signal, before.at(-1)).then(
      page => {
        if (abort.signal.aborted) return
        const fresh = page.filter(item => !known.current.has(keyOf(item)))
        for (const item of fresh) known.current.add(keyOf(item))
        if (fresh.length === 0) skipped.current += page.length
        setState({ items: [...before, ...fresh], isLoading: false, hasMore: page.length === pageSize })
      },
      (error: unknown) => {
        if (!abort.signal.aborted && !isAborted(error))
          setState(now => ({ ...now, error, isLoading: false, hasMore: false }))
      },
    )
  }

  useEffect(() => {
    const isAnother = keyBefore.current !== key
    keyBefore.current = key
    skipped.current = 0
    known.current = new Set()
    setState(({ items }) => ({ items: isAnother ? [] : items, isLoading: true, hasMore: false }))
    ask([])
    return () => under.current?.abort()
  }, [key, round])

  return {
    ...state,
    error: state.error,
    more() {
      if (state.isLoading || !state.hasMore) return
      setState(before => ({ ...before, isLoading: true }))
      ask(state.items)
    },
    reload: useCallback(() => setRound(n => n + 1), []),
    set: useCallback(
      (change: (items: readonly T[]) => readonly T[]) => setState(now => ({ ...now, items: change(now.items) })),
      [],
    ),
  }
}
