import type { PageName } from "../contract/pages.ts"

/** A page for people, or one of its files, made once and served from memory. */
export interface Page {
  readonly contentType: string
  readonly body: Buffer
  /** Beside `Content-Type`, `Content-Length` and `ETag`. */
  readonly headers: Readonly<Record<string, string>>
  /** With its quotes, as it stands in `ETag` and `If-None-Match`. */
  readonly etag: string
}

/**
 * What a page's pattern answers for a path and the reader's `Accept-Language`, empty without one;
 * undefined when there is no such page. A page that depends on the language says so by `Vary`.
 */
export type PageSource = (path: string, acceptLanguage: string) => Page | undefined | Promise<Page | undefined>

/** The pages that are served; those that are left out are switched off. */
export type Pages = Readonly<Partial<Record<PageName, PageSource>>>
