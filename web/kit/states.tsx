import type { ComponentChildren } from "preact"
import { wordsOf } from "./api.ts"
import { t } from "./text.ts"

/** What stands where something is loaded, could not be, or is. */
export function Loaded<T>({
  of: { data, error, reload },
  children,
}: {
  of: { data: T | undefined; error: unknown; reload: () => void }
  children: (data: T) => ComponentChildren
}) {
  return (
    <>
      {error !== undefined && <Failed error={error} onRetry={reload} />}
      {data === undefined ? error === undefined && <p class="loading">{t("Loading …")}</p> : children(data)}
    </>
  )
}

export function Failed({ error, onRetry }: { error: unknown; onRetry: () => void }) {
  return (
    <div class="notice bad" role="alert">
      <p>{wordsOf(error)}</p>
      <button type="button" onClick={onRetry}>
        {t("Try again")}
      </button>
    </div>
  )
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p>{title}</p>
      {children}
    </div>
  )
}

export type Tone = "good" | "warm" | "bad" | "cool" | "plain"

export function Badge({ tone = "plain", children }: { tone?: Tone; children: ComponentChildren }) {
  return <span class={`badge ${tone}`}>{children}</span>
}

/** Names and values of one thing. */
export function Facts({ of }: { of: readonly (readonly [name: string, value: ComponentChildren])[] }) {
  return (
    <dl class="facts">
      {of.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  )
}
