import { useEffect, useState } from "preact/hooks"
import { t } from "../../kit/text.ts"
import { clock, fullTime } from "../clock.ts"
import { me, watch } from "../session.ts"

/** A connection that comes back sooner is not worth the words. */
const afterMs = 5_000

/** That the connection is away, and before long how old what one sees is. */
export function AsOf() {
  const { connection, isRestored } = watch("connection")
  const isUnavailable = connection === "returning"
  const [isLong, setLong] = useState(false)
  useEffect(() => {
    setLong(false)
    if (!isUnavailable) return
    const timer = setTimeout(() => setLong(true), afterMs)
    return () => clearTimeout(timer)
  }, [isUnavailable])
  const at = me().asOf.value
  if (at !== undefined && (isRestored || (isUnavailable && isLong)))
    return (
      <p class="notice warm" role="status">
        {t("No connection. This is from {time}.", { time: isToday(at) ? clock(at / 1_000) : fullTime(at / 1_000) })}{" "}
        {t("What you write is sent later.")}
      </p>
    )
  return isUnavailable ? <p class="notice warm">{t("Connection lost. Coming back …")}</p> : null
}

const isToday = (ms: number) => new Date(ms).toDateString() === new Date().toDateString()
