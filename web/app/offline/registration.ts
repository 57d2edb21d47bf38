import { go } from "../../kit/router.ts"
import { base } from "../session.ts"

/** Only this script may become a service worker: the document's policy lets no other text be one. */
const policy = (
  globalThis as {
    trustedTypes?: { createPolicy(name: string, rules: object): { createScriptURL(url: string): string } }
  }
).trustedTypes?.createPolicy("starling-worker", { createScriptURL: () => `${base}/app/service-worker.js` })

const isWanted = document.body.dataset["offline"] === "on"

/** Undefined: this browser has none, or the operator wants none. */
let registered: Promise<ServiceWorkerRegistration | undefined> | undefined
export const registration = (): Promise<ServiceWorkerRegistration | undefined> =>
  (registered ??= register().catch(() => undefined))

async function register(): Promise<ServiceWorkerRegistration | undefined> {
  // Without https there are none.
  const { serviceWorker } = navigator as { serviceWorker?: ServiceWorkerContainer }
  if (!serviceWorker) return undefined
  if (!isWanted) {
    const found = await serviceWorker.getRegistration(`${base}/app`)
    await found?.unregister()
    return undefined
  }
  serviceWorker.addEventListener("message", ({ data }: MessageEvent<{ path?: unknown }>) => {
    if (typeof data.path === "string") go(data.path.split("/"))
  })
  const url = `${base}/app/service-worker.js`
  return serviceWorker.register(policy?.createScriptURL(url) ?? url, { scope: `${base}/app` })
}
