import { effect, signal } from "@preact/signals"
import type { MessageResponse, NotificationResponse, Snowflake } from "../../client/contract.ts"
import { go } from "../kit/router.ts"
import { registration } from "./offline/registration.ts"
import { t } from "../kit/text.ts"
import { nameIn, plainText } from "./names.ts"
import { onLeave, type Session } from "./session.ts"

/** What this browser shows while nobody looks at the page. */
export interface Choice {
  readonly isOn: boolean
  readonly directs: boolean
  readonly mentions: boolean
  readonly hidesContent: boolean
  /** Also when the page is closed. */
  readonly isPushed: boolean
}
const key = "starling.notifications"
const none: Choice = { isOn: false, directs: true, mentions: true, hidesContent: false, isPushed: false }

function kept(): Choice {
  try {
    return { ...none, ...(JSON.parse(localStorage.getItem(key) ?? "{}") as Partial<Choice>) }
  } catch {
    return none
  }
}
export const choice = signal(kept())
effect(() => localStorage.setItem(key, JSON.stringify(choice.value)))

export const mayShow = (): boolean => "Notification" in globalThis && Notification.permission === "granted"

/** One under a tag: of several messages of a channel the last is shown, also when it was pushed. */
export async function show(title: string, body: string, tag: string, path: string): Promise<void> {
  if (!mayShow()) return
  const options = { body, tag, renotify: true, data: { path } } as NotificationOptions
  const worker = await registration()
  if (worker?.active) return worker.showNotification(title, options)
  const shown = new Notification(title, options)
  shown.addEventListener("click", () => {
    focus()
    go(path.split("/"))
    shown.close()
  })
}

/** Shows what comes while nobody looks. */
export function notify({ gateway, store, client }: Session): void {
  /** What the person has chosen for their DMs, read once. */
  const levels = new Map<Snowflake, Promise<boolean>>()
  const wants = (channel: Snowflake): Promise<boolean> => {
    const known =
      levels.get(channel) ??
      client
        .getChannelNotificationSettings({ channel_id: channel })
        .then(({ effective }) => !effective.muted && effective.level === "all")
        .catch(() => true)
    levels.set(channel, known)
    return known
  }
  gateway.on("NOTIFICATION_SETTINGS_UPDATE", () => levels.clear())
  gateway.on("MESSAGE_CREATE", message => {
    if (choice.value.isOn && choice.value.directs && document.hidden) showDirect(message).catch(() => {})
  })
  gateway.on("NOTIFICATION_CREATE", notification => {
    const { isOn, mentions } = choice.value
    if (isOn && mentions && document.hidden && notification.type === "mention")
      showMention(notification).catch(() => {})
  })

  async function showDirect({ channel_id, id, author_id, author_username, content }: MessageResponse): Promise<void> {
    if (!store.state.directs.has(channel_id) || author_id === store.state.user?.id || !(await wants(channel_id))) return
    await show(author_username, textOf(content), channel_id, `dms/${channel_id}/${id}`)
  }

  /** The server's own words are English. */
  async function mentionOf(server: Snowflake, channel: Snowflake, sender: Snowflake): Promise<string> {
    const known = store.state.servers.get(server)
    const name = nameIn(known, sender, "") || (await client.getUser({ user_id: sender })).username
    const place = known?.channels.get(channel)?.name
    return place === undefined
      ? t("{name} has mentioned you", { name })
      : t("{name} has mentioned you in {channel}", { name, channel: `#${place}` })
  }

  async function showMention({ content, content_preview, link, sender_id }: NotificationResponse): Promise<void> {
    const [, , server, channel, message] = (link ?? "").split("/")
    // In a DM its message is shown already.
    if (server === undefined || server === "@me" || channel === undefined) return
    const title = sender_id === null ? content : await mentionOf(server, channel, sender_id).catch(() => content)
    await show(title, textOf(content_preview), channel, `servers/${server}/${channel}/${message ?? ""}`)
  }
}

const textOf = (content: string | null): string =>
  choice.value.hidesContent || content === null ? "" : plainText(content, undefined).slice(0, 200)

/** The browser is subscribed with the server's key, and the server knows what it takes. */
export async function subscribe({ client }: Session): Promise<boolean> {
  const worker = await registration()
  if (!worker || !("pushManager" in worker) || !mayShow()) return false
  await isActive(worker)
  const { public_key } = await client.getPushKey()
  const before = await worker.pushManager.getSubscription()
  const isSame = before && encoded(before.options.applicationServerKey) === public_key
  if (before && !isSame) await before.unsubscribe()
  const subscription =
    before && isSame
      ? before
      : await worker.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: public_key })
  const { directs, mentions, hidesContent } = choice.value
  const { endpoint, keys = {} } = subscription.toJSON()
  await client.createPushSubscription({
    endpoint: endpoint ?? "",
    keys: { p256dh: keys["p256dh"] ?? "", auth: keys["auth"] ?? "" },
    directs,
    mentions,
    hides_content: hidesContent,
  })
  return true
}

/** Only then it takes pushes. */
async function isActive({ active, waiting, installing }: ServiceWorkerRegistration): Promise<void> {
  const begun = installing ?? waiting
  if (active || !begun) return
  await new Promise<void>(resolve => {
    begun.addEventListener("statechange", () => {
      if (begun.state === "activated") resolve()
    })
  })
}

const encoded = (bytes: ArrayBuffer | null): string | undefined =>
  bytes
    ? btoa(String.fromCharCode(...new Uint8Array(bytes)))
        .replaceAll("+", "-")
        .replaceAll("/", "_")
        .replace(/=+$/, "")
    : undefined

/** The push service forgets the browser; the server's subscription ends with the session, or by this. */
export async function unsubscribe(session?: Session): Promise<void> {
  const worker = await registration()
  const subscription = await worker?.pushManager?.getSubscription()
  if (!subscription) return
  const { endpoint } = subscription
  await subscription.unsubscribe()
  if (!session) return
  const { subscriptions } = await session.client.listPushSubscriptions()
  const own = subscriptions.find(one => one.endpoint === endpoint)
  if (own) await session.client.deletePushSubscription({ subscription_id: own.id })
}

/** A subscription that was lost is made again. At sign-out it ends: the next person gets none of it. */
export function keepSubscribed(session: Session): void {
  if (choice.value.isPushed) subscribe(session).catch(() => {})
  onLeave(() => {
    choice.value = { ...choice.value, isPushed: false }
    unsubscribe().catch(() => {})
  })
}
