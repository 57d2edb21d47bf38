import { sayFailed } from "../kit/toasts.tsx"
import { signal } from "@preact/signals"
import type { Routes, Snowflake } from "../../client/contract.ts"
import { wordsOf } from "../kit/api.ts"
import { me } from "./session.ts"

type Input = Omit<Routes["createMessage"]["input"], "channel_id" | "nonce">

/** A message on its way, shown where it will stand. */
export interface Outgoing {
  readonly nonce: string
  readonly channel: Snowflake
  readonly input: Input
  readonly sentAt: number
  /** Why it was not sent; undefined: it is under way. */
  readonly failure: string | undefined
}

const all = signal<readonly Outgoing[]>([])
export const outgoing = (channel: Snowflake): Outgoing[] => all.value.filter(one => one.channel === channel)

const replace = (nonce: string, by: readonly Outgoing[]) => {
  all.value = all.value.flatMap(one => (one.nonce === nonce ? by : [one]))
}

/** Shows a message at once and sends it. Its nonce is the same at every try, so it cannot be doubled. */
export function send(channel: Snowflake, input: Input): void {
  const one = { nonce: crypto.randomUUID(), channel, input, sentAt: Date.now(), failure: undefined }
  all.value = [...all.value, one]
  deliver(one).catch(sayFailed)
}

export function sendAgain(one: Outgoing): void {
  const fresh = { ...one, failure: undefined }
  replace(one.nonce, [fresh])
  deliver(fresh).catch(sayFailed)
}

export const forget = ({ nonce }: Outgoing): void => replace(nonce, [])

async function deliver(one: Outgoing): Promise<void> {
  const { client, store } = me()
  const { nonce, channel } = one
  try {
    const message = await client.createMessage({ ...one.input, channel_id: channel, nonce })
    // Whichever comes first, the answer or the event, takes its place.
    store.put(message)
    forget(one)
  } catch (error) {
    replace(nonce, [{ ...one, failure: wordsOf(error) }])
  }
}
