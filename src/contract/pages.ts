/** What is served beside the routes: documents and pages for people, and their files. */
export interface PageRoute {
  /** Parameters are written `:name`. */
  readonly path: string
  /**
   * `root`: at the host root; `both`: also under `/api/v1`. `operators`: in the operator area, for
   * who comes from an allowed address; its path begins with `/admin`, as in `Mount` of registry.ts.
   */
  readonly mount: "root" | "both" | "operators"
  readonly summary: string
  readonly contentType: string
  /** The setting that switches it off; absent: it is always served. */
  readonly setting?: "docs_enabled" | "redoc_enabled" | "app_enabled"
}

const definePage = (page: Omit<PageRoute, "mount"> & { mount?: "both" | "operators" }): PageRoute => ({
  mount: "root",
  ...page,
})

const html = "text/html"
const docs = { contentType: html, setting: "docs_enabled" } as const

/** Every page, by name. Like the routes, they are answered to GET and HEAD, without a token. */
export const pages = {
  openapi: definePage({ path: "/openapi.json", summary: "The REST interface", contentType: "application/json" }),
  asyncapi: definePage({ path: "/asyncapi.json", summary: "The gateway", contentType: "application/json" }),
  robots: definePage({
    path: "/robots.txt",
    mount: "both",
    summary: "Nothing here is for search engines",
    contentType: "text/plain",
  }),
  docs: definePage({ path: "/docs", summary: "The REST interface, with Swagger UI", ...docs }),
  docsRedirect: definePage({ path: "/docs/oauth2-redirect", summary: "The end of a sign-in in `/docs`", ...docs }),
  docsGateway: definePage({ path: "/docs/gateway", summary: "The gateway", ...docs }),
  redoc: definePage({
    path: "/redoc",
    summary: "The REST interface, with Redoc",
    contentType: html,
    setting: "redoc_enabled",
  }),
  docsAssets: definePage({
    path: "/docs/assets/:name",
    summary: "Scripts and styles of these pages",
    contentType: "text/javascript, text/css",
  }),
  app: definePage({ path: "/app", summary: "A place to chat", contentType: html, setting: "app_enabled" }),
  appInvite: definePage({
    path: "/invite/:code",
    summary: "An invite, in the page to chat",
    contentType: html,
    setting: "app_enabled",
  }),
  appAssets: definePage({
    path: "/app/assets/:name",
    summary: "Scripts and styles of the page to chat",
    contentType: "text/javascript, text/css",
    setting: "app_enabled",
  }),
  appManifest: definePage({
    path: "/app/manifest.webmanifest",
    summary: "How the page to chat is installed",
    contentType: "application/manifest+json",
    setting: "app_enabled",
  }),
  // Always served: with the page switched off it is a script that removes itself and what it has kept.
  appWorker: definePage({
    path: "/app/service-worker.js",
    summary: "The service worker of the page to chat",
    contentType: "text/javascript",
  }),
  verifyEmail: definePage({ path: "/verify-email", summary: "Confirm an e-mail address", contentType: html }),
  resetPassword: definePage({ path: "/reset-password", summary: "Choose a new password", contentType: html }),
  restoreEmail: definePage({ path: "/restore-email", summary: "Take an account back", contentType: html }),
  operatorLogin: definePage({
    path: "/admin/login",
    mount: "operators",
    summary: "Sign in to the operator's page",
    contentType: html,
  }),
  operatorDashboard: definePage({
    path: "/admin/ui-dashboard",
    mount: "operators",
    summary: "The operator's page",
    contentType: html,
  }),
  operatorAssets: definePage({
    path: "/admin/assets/:name",
    mount: "operators",
    summary: "Scripts and styles of these pages",
    contentType: "text/javascript, text/css",
  }),
} as const satisfies Record<string, PageRoute>
export type PageName = keyof typeof pages

/** Paths of the operator area that lead to its pages, with 307. They are answered to everybody. */
export const operatorRedirects = [
  { from: "", to: "/login" },
  { from: "/", to: "/login" },
  { from: "/ui", to: "/ui-dashboard" },
] as const

/** Where a browser that asks for `/` is led, unless the page to chat is switched off. */
export const appPath = "/app"

/** Where the gateway listens for WebSockets. */
export const gatewayPath = "/gateway"
