/**
 * The page's service worker. It keeps the page's own files, by names that tell their content, and
 * the document as it came last; never an answer of the API. It shows pushes. The server puts
 * `self.starling` before it.
 */

interface Files {
  /** Of all files together. */
  readonly version: string
  readonly names: readonly string[]
}
interface Extendable extends Event {
  waitUntil(work: Promise<unknown>): void
}
interface Fetching extends Extendable {
  readonly request: Request
  respondWith(answer: Promise<Response>): void
}
interface Pushed extends Extendable {
  readonly data: { json(): unknown } | null
}
interface Clicked extends Extendable {
  readonly notification: Notification
}
interface Client {
  readonly visibilityState: DocumentVisibilityState
  focus(): Promise<Client>
  postMessage(message: unknown): void
}
interface Scope {
  readonly starling: Files
  readonly registration: ServiceWorkerRegistration
  readonly clients: {
    claim(): Promise<void>
    matchAll(options: { type: "window"; includeUncontrolled: boolean }): Promise<Client[]>
    openWindow(url: string): Promise<unknown>
  }
  skipWaiting(): Promise<void>
  addEventListener(name: "install" | "activate", listen: (event: Extendable) => void): void
  addEventListener(name: "fetch", listen: (event: Fetching) => void): void
  addEventListener(name: "push", listen: (event: Pushed) => void): void
  addEventListener(name: "notificationclick", listen: (event: Clicked) => void): void
}
/** As the server sends it, see src/domain/messages/pushes.ts. */
interface Note {
  readonly author: string
  readonly server: string | null
  readonly channel: string | null
  readonly text: string | null
  readonly path: string
  readonly tag: string
  readonly at: number
}

const scope = self as unknown as Scope
const { version, names } = scope.starling
const prefix = "starling-app-"
const cacheName = `${prefix}${version}`
/** The page, as its path is called, behind whatever proxy. */
const page = scope.registration.scope
const assets = `${page}/assets/`
/** So long a server may take for the document, where one is kept. */
const documentMs = 8_000

scope.addEventListener("install", event => {
  event.waitUntil(install())
})

async function install(): Promise<void> {
  const cache = await caches.open(cacheName)
  await cache.addAll(names.map(name => `${assets}${name}`))
  const document = await fetch(page, { cache: "no-store" })
  if (document.ok) await cache.put(page, document)
  await scope.skipWaiting()
}

scope.addEventListener("activate", event => {
  event.waitUntil(activate())
})

/** The version before stays: pages of it that are open may ask for a part that they have not loaded yet. */
async function activate(): Promise<void> {
  const own = (await caches.keys()).filter(name => name.startsWith(prefix) && name !== cacheName)
  for (const name of own.slice(0, -1)) await caches.delete(name)
  await scope.clients.claim()
}

scope.addEventListener("fetch", event => {
  const { request } = event
  if (request.method !== "GET") return
  const url = request.url.replace(/[?#].*$/, "")
  if (request.mode === "navigate" && url === page) event.respondWith(documentFor(request))
  else if (url.startsWith(assets)) event.respondWith(asset(request))
})

/** The server's, so that a new version comes with the next load; without one, what came last. */
async function documentFor(request: Request): Promise<Response> {
  const kept = await caches.match(page).catch(() => undefined)
  const asked = fetch(request)
  try {
    const answer = await (kept ? Promise.race([asked, late()]) : asked)
    if (answer.ok) {
      const copy = answer.clone()
      caches
        .open(cacheName)
        .then(cache => cache.put(page, copy))
        .catch(() => {})
    }
    // The page was switched off.
    if (answer.status === 404) await end()
    return kept && answer.status >= 500 ? kept : answer
  } catch (error) {
    asked.catch(() => {})
    if (kept) return kept
    throw error
  }
}

const late = (): Promise<never> =>
  new Promise((_, reject) => {
    setTimeout(() => reject(new Error("late")), documentMs)
  })

async function asset(request: Request): Promise<Response> {
  const kept = await caches.match(request.url).catch(() => undefined)
  return kept ?? fetch(request)
}

async function end(): Promise<void> {
  for (const name of await caches.keys()) if (name.startsWith(prefix)) await caches.delete(name)
  await scope.registration.unregister()
}

scope.addEventListener("push", event => {
  event.waitUntil(show(event.data?.json() as Note | undefined))
})

async function show(note: Note | undefined): Promise<void> {
  if (!note) return
  const open = await scope.clients.matchAll({ type: "window", includeUncontrolled: true })
  // Who looks at the page reads it there.
  if (note.tag !== "test" && open.some(client => client.visibilityState === "visible")) return
  const { author, server, channel, text, path, tag } = note
  const place = channel === null ? "" : ` (#${channel}${server === null ? "" : `, ${server}`})`
  const options = { body: text ?? "", tag, renotify: true, data: { path } }
  await scope.registration.showNotification(`${author}${place}`, options)
}

scope.addEventListener("notificationclick", event => {
  event.notification.close()
  const { path } = event.notification.data as { path: string }
  event.waitUntil(openPlace(path))
})

async function openPlace(path: string): Promise<void> {
  const [client] = await scope.clients.matchAll({ type: "window", includeUncontrolled: true })
  if (!client) return void (await scope.clients.openWindow(`${page}#/${path}`))
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a client of this worker has one origin
  client.postMessage({ path })
  await client.focus()
}
