import { useEffect, useState } from "preact/hooks"
import { msgid, t } from "../../kit/text.ts"
import type { Outage } from "../outage.ts"
import { clock, fullTime } from "../clock.ts"
import { me, watch } from "../session.ts"

/** A connection that comes back sooner is not worth the words. */
const afterMs = 5_000

const outageWords = {
  maintenance: msgid("Maintenance. This page comes back by itself."),
  shutting_down: msgid("The service has been shut down. If it returns, this page comes back by itself."),
  restarting: msgid("The server is about to restart. This page comes back by itself."),
  blocked: msgid("Your address is blocked on this server."),
  closed: msgid("Disconnected. Load this page again."),
}
/** Without one the page is on its way back. */
export const comesBack = (outage: Outage | undefined): boolean =>
  outage?.kind !== "blocked" && outage?.kind !== "closed"

/** What an operator says of the service, and the state in words. */
function OutageNotice({ kind, message }: Outage) {
  return (
    <p class="notice warm" role="status">
      {t(outageWords[kind])} {message && <span dir="auto">{message}</span>}
    </p>
  )
}

/** That the connection is away, and before long how old what one sees is. */
export function AsOf() {
  const { connection, isRestored } = watch("connection")
  const outage = me().outage.value
  const isUnavailable = connection === "returning" || connection === "closed"
  const [isLong, setLong] = useState(false)
  useEffect(() => {
    setLong(false)
    if (!isUnavailable) return
    const timer = setTimeout(() => setLong(true), afterMs)
    return () => clearTimeout(timer)
  }, [isUnavailable])
  const at = me().asOf.value
  const said = outage && <OutageNotice {...outage} />
  if (at !== undefined && (isRestored || (isUnavailable && isLong)))
    return (
      <>
        {said}
        <p class="notice warm" role="status">
          {t("No connection. This is from {time}.", { time: isToday(at) ? clock(at / 1_000) : fullTime(at / 1_000) })}{" "}
          {t("What you write is sent later.")}
        </p>
      </>
    )
  if (said) return said
  return isUnavailable ? <p class="notice warm">{t("Connection lost. Coming back …")}</p> : null
}

const isToday = (ms: number) => new Date(ms).toDateString() === new Date().toDateString()
