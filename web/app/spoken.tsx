import { useEffect, useRef, useState } from "preact/hooks"
import type { MessageResponse, Snowflake } from "../../client/contract.ts"
import { isLater } from "../../client/state.ts"
import { count } from "../kit/text.ts"
import { nameIn, plainText } from "./names.ts"
import { me, ownId } from "./session.ts"

/** So long messages are gathered, so that many do not talk over one another. */
const gatherMs = 1_500

/** Reads new messages of others aloud to who cannot see them: how many there are, and the last. */
export function SpokenMessages({
  messages,
  server,
}: {
  messages: readonly MessageResponse[] | undefined
  server: Snowflake | undefined
}) {
  const [spoken, speak] = useState("")
  const said = useRef<Snowflake>(undefined)
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  const latest = useRef(messages)
  latest.current = messages
  const newest = messages?.at(-1)?.id
  said.current ??= newest
  useEffect(() => {
    if (newest === undefined || said.current === undefined || !isLater(newest, said.current)) return
    timer.current ??= setTimeout(() => {
      timer.current = undefined
      const fresh = (latest.current ?? []).filter(({ id }) => isLater(id, said.current!))
      const others = fresh.filter(({ author_id }) => author_id !== ownId())
      const last = others.at(-1)
      said.current = fresh.at(-1)?.id ?? said.current
      if (!last) return
      const known = server === undefined ? undefined : me().store.state.servers.get(server)
      const text = `${nameIn(known, last.author_id, last.author_username)}: ${plainText(last.content ?? "", known)}`
      speak(others.length === 1 ? text : `${count(others.length, "{n} new message", "{n} new messages")}. ${text}`)
    }, gatherMs)
  }, [newest])
  useEffect(() => () => clearTimeout(timer.current), [])
  return (
    <p class="unseen" role="status" aria-live="polite" dir="auto">
      {spoken}
    </p>
  )
}
