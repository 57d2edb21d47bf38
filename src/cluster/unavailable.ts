/** What Redis answers when it cannot serve now; anything else that it refuses is a fault of ours. */
const notNow = /^(LOADING|OOM|READONLY|BUSY|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|MISCONF|NOREPLICAS)\b/
/** What ioredis says of a connection, or of a cluster, that is not there; it gives these errors no code. */
const notThere =
  /^(Connection is closed|Command timed out|Stream isn't writeable|Cluster isn't ready|None of startup nodes is available|Failed to refresh slots cache|Cluster is ended)/
const notReached =
  /^(ECONNREFUSED|ECONNRESET|EPIPE|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|EMFILE|ENFILE)$/

/** Whether Redis or the way to it is gone, or takes too long, or it cannot serve now: nothing is wrong with what was asked. */
export function isRedisUnavailable(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  if (error.name === "ReplyError") return notNow.test(error.message)
  return (
    error.name === "MaxRetriesPerRequestError" ||
    error.name === "ClusterAllFailedError" ||
    notThere.test(error.message) ||
    ("code" in error && notReached.test(String(error.code)))
  )
}
