import { opcodes } from "../../client/contract.ts"
import { me, type Session } from "./session.ts"

/** After so long without a hand on it the page says that nobody is there. */
const idleAfterMs = 5 * 60_000
const lookEveryMs = 15_000

/**
 * Says idle when nobody uses the page, so that others know, and messages are pushed to where the
 * person is. What they have chosen themselves stays: only who is online becomes idle.
 */
export function watchActivity({ gateway, client, store }: Session): () => void {
  let usedAt = Date.now()
  let isIdle = false
  const isHere = () => !document.hidden && Date.now() - usedAt < idleAfterMs
  const say = (status: "online" | "idle") => {
    if (store.connection !== "live") return
    isIdle = status === "idle"
    gateway.send({ op: opcodes.PRESENCE_UPDATE, d: { status } })
  }
  const used = () => {
    usedAt = Date.now()
    if (isIdle && !document.hidden) say("online")
  }
  const look = async () => {
    if (isIdle || isHere() || Date.now() - usedAt < idleAfterMs || store.connection !== "live") return
    const own = me().store.state.user?.id
    if (own === undefined) return
    const { status } = await client.getPresence({ user_id: own })
    if (status === "online" && !isHere()) say("idle")
  }
  const timer = setInterval(() => void look().catch(() => {}), lookEveryMs)
  for (const name of ["pointerdown", "keydown", "visibilitychange"]) document.addEventListener(name, used)
  // Another page of the same person has been left, and this one has not.
  const end = gateway.on("PRESENCE_UPDATE", ({ user_id, status }) => {
    if (user_id === store.state.user?.id && status === "idle" && isHere()) say("online")
  })
  return () => {
    clearInterval(timer)
    for (const name of ["pointerdown", "keydown", "visibilitychange"]) document.removeEventListener(name, used)
    end()
  }
}
