import type { ComponentChildren } from "preact"

/** What a view is called, what it is for, and what can be done in it. */
export function Header({
  title,
  children,
  about,
}: {
  title: ComponentChildren
  about?: ComponentChildren
  children?: ComponentChildren
}) {
  return (
    <div class="head">
      <div>
        <h1>{title}</h1>
        {about && <p class="faint">{about}</p>}
      </div>
      {children && <div class="buttons">{children}</div>}
    </div>
  )
}
