import { sayFailed } from "../kit/toasts.tsx"
import { signal } from "@preact/signals"
import { ApiError } from "../../client/rest.ts"
import type { MessageResponse, Routes, Snowflake } from "../../client/contract.ts"
import { wordsOf } from "../kit/api.ts"
import { dropOutgoing, keepOutgoing, keptOutgoing } from "./offline/kept.ts"
import { me, type Session } from "./session.ts"
import { stickerIn } from "./stickers.ts"

export type Input = Omit<Routes["createMessage"]["input"], "channel_id" | "nonce">

/** A message on its way, shown where it will stand. */
export interface Outgoing {
  readonly nonce: string
  readonly channel: Snowflake
  readonly input: Input
  readonly sentAt: number
  /** It waits for the connection. */
  readonly isWaiting: boolean
  /** Why it was not sent; undefined: it is under way, or waits. */
  readonly failure: string | undefined
}

const all = signal<readonly Outgoing[]>([])
export const outgoing = (channel: Snowflake): Outgoing[] => all.value.filter(one => one.channel === channel)

const replace = (nonce: string, by: readonly Outgoing[]) => {
  all.value = all.value.flatMap(one => (one.nonce === nonce ? by : [one]))
}
const known = (nonce: string) => all.value.find(one => one.nonce === nonce)

/**
 * Shows a message at once and sends it. Its nonce is the same at every try, so it cannot be doubled,
 * and the browser keeps it until it is sent: a page that is opened again sends it.
 */
export function send(channel: Snowflake, input: Input): void {
  // Two of the same millisecond stay in order.
  const sentAt = Math.max(Date.now(), (all.value.at(-1)?.sentAt ?? 0) + 1)
  const isWaiting = me().store.connection !== "live"
  const one = { nonce: crypto.randomUUID(), channel, input, sentAt, failure: undefined, isWaiting }
  all.value = [...all.value, one]
  keepOutgoing(me().client.token ?? "", one).catch(sayFailed)
  deliver(channel)
}

export function sendAgain(one: Outgoing): void {
  replace(one.nonce, [{ ...one, failure: undefined }])
  deliver(one.channel)
}

export function forget({ nonce }: Outgoing): void {
  replace(nonce, [])
  dropOutgoing(nonce).catch(sayFailed)
}

/** What an earlier page has not sent, and what waits, goes out once the connection is there. */
export async function sendKept({ gateway, client, store }: Session): Promise<void> {
  const kept = await keptOutgoing(client.token ?? "")
  const fresh = kept.filter(({ nonce }) => !known(nonce))
  all.value = [
    ...fresh.map(one => ({ ...(one as Omit<Outgoing, "failure" | "isWaiting">), failure: undefined, isWaiting: true })),
    ...all.value,
  ]
  const deliverAll = () => {
    for (const channel of new Set(all.value.map(one => one.channel))) deliver(channel)
  }
  gateway.on("ready", deliverAll)
  gateway.on("resumed", deliverAll)
  if (store.connection === "live") deliverAll()
}

export function forgetAll(): void {
  all.value = []
}

/** Channels to which something is being sent. One after the other, so that they arrive as they were written. */
const busy = new Set<Snowflake>()

function deliver(channel: Snowflake): void {
  if (busy.has(channel)) return
  busy.add(channel)
  deliverAll(channel)
    .catch(sayFailed)
    .finally(() => busy.delete(channel))
}

async function deliverAll(channel: Snowflake): Promise<void> {
  const session = me()
  const next = () => outgoing(channel).find(one => one.failure === undefined)
  for (let one = next(); one; one = next()) if (!(await deliverOne(session, one))) return
}

/** What is used most is suggested first. Nobody waits for that. */
function countSticker(client: Session["client"], { id: message_id, content }: MessageResponse): void {
  const sticker = stickerIn(content)
  if (sticker) client.sendSticker({ sticker_id: sticker.id, message_id }).catch(() => {})
}

/** A proxy says these of a server that is away. */
const awayStatuses: ReadonlySet<number> = new Set([502, 503, 504])

/** @returns false: there is no connection, so it waits, and what was written after it as well */
async function deliverOne({ client, store, outage }: Session, one: Outgoing): Promise<boolean> {
  const { nonce, channel, input } = one
  try {
    const message = await client.createMessage({ ...input, channel_id: channel, nonce })
    // Whichever comes first, the answer or the event, takes its place.
    store.put(message)
    countSticker(client, message)
    forget(one)
    return true
  } catch (error) {
    const isRefused = error instanceof ApiError && !awayStatuses.has(error.status)
    // In maintenance requests are refused before the connection ends.
    if (!isRefused && (store.connection !== "live" || outage.value?.kind === "maintenance")) {
      replace(nonce, [{ ...one, isWaiting: true }])
      return false
    }
    replace(nonce, [{ ...one, isWaiting: false, failure: wordsOf(error) }])
    return true
  }
}
