import { setTimeout as sleep } from "node:timers/promises"
import { errors, type ErrorCode } from "../../contract/core/errors.ts"
import { ServiceNotice } from "../../contract/service/server-status.ts"
import { mayBlock, maxBlocks } from "../../domain/service/address-blocks.ts"
import { formatRange, parseRange } from "../../domain/core/client-address.ts"
import { closingSeconds, messageOf } from "../../domain/service/server-status.ts"
import type { OperatorAnswer } from "../../storage/service/operator-requests.ts"
import type { Storage } from "../../storage/storage.ts"
import { dateOf, Misuse, Refusal, requireReason, userCalled, wholeNumber, within, type Commands } from "./saying.ts"

/** Milliseconds until nobody is waited for any longer. */
const timeoutsMs = { force_logout: 30_000, logout_all: 120_000 } as const

/** The service as a whole: its state, everybody's sessions, addresses. */
export const serviceCommands: Commands = {
  state: {
    takes: ["STATE"],
    mayBeLeftOut: true,
    options: ["message", "downtime", "restart-at"],
    async run({ storage, given: [state], options }) {
      if (state === undefined) {
        if (Object.keys(options).length > 0) throw new Misuse("which state?")
        const facts = await storage.serverStatus.look()
        return [facts.state, messageOf(facts)].filter(Boolean).join(": ")
      }
      const asked = ServiceNotice.safeParse({
        state,
        message: options["message"],
        estimated_downtime_seconds: wholeNumber("downtime", options["downtime"]),
        restart_at: momentOf(options["restart-at"]),
      })
      if (!asked.success)
        throw new Misuse(asked.error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`).join("\n"))
      const { message = null, estimated_downtime_seconds = null, restart_at = null } = asked.data
      await storage.serverStatus.setState({ state: asked.data.state, message, estimated_downtime_seconds, restart_at })
      return consequences[asked.data.state]
    },
  },

  "force-logout": {
    takes: ["USER"],
    async run({ storage, given: [name] }) {
      const user = await userCalled(storage, name!)
      const request = await storage.operatorRequests.forceLogout(user.id, "Security logout")
      return `${user.username}: ${await outcomeOf(storage, request, "force_logout")}`
    },
  },

  "logout-all": {
    takes: [],
    async run({ storage }) {
      const request = await storage.operatorRequests.logoutAll()
      console.log(
        "all existing sessions are refused from now on; clients are notified and disconnected, then the sessions are deleted",
      )
      return outcomeOf(storage, request, "logout_all")
    },
  },

  block: {
    takes: ["ADDRESS"],
    options: ["reason", "hours"],
    async run({ storage, given: [text], options: { reason = null, hours } }) {
      const range = parseRange(text!)
      if (!range) throw new Misuse(`${text} is not an IP address or a CIDR range`)
      if (!mayBlock(range)) throw new Refusal("this machine's own addresses cannot be blocked")
      requireReason(reason)
      const lastsHours = within("hours", hours, 876_000)
      const address = formatRange(range)
      const isBlocked = await storage.addressBlocks.block({
        address,
        reason,
        blocked_by: null,
        lastsSeconds: lastsHours === undefined ? null : lastsHours * 3600,
      })
      if (!isBlocked) throw new Refusal(`${maxBlocks} addresses are blocked, which is the maximum. Use a firewall`)
      return `${address} is refused ${lastsHours === undefined ? "permanently" : `for ${lastsHours} h`}; its connections end within a second or so`
    },
  },

  unblock: {
    takes: ["ADDRESS"],
    async run({ storage, given: [text] }) {
      const range = parseRange(text!)
      if (!range) throw new Misuse(`${text} is not an IP address or a CIDR range`)
      const address = formatRange(range)
      return (await storage.addressBlocks.unblock(address))
        ? `${address} is no longer blocked`
        : `${address} was not blocked`
    },
  },

  blocks: {
    takes: [],
    async run({ storage }) {
      const blocks = await storage.addressBlocks.list()
      const lines = blocks.map(({ address, expires_at, reason }) =>
        [address, expires_at === null ? "permanently" : `until ${dateOf(expires_at)}`, reason]
          .filter(Boolean)
          .join("  "),
      )
      return lines.join("\n") || "nothing is blocked"
    },
  },
}

const consequences: Record<ServiceNotice["state"], string> = {
  running: "running: clients find out when they poll /status",
  restarting: "restarting: connected clients are notified; nothing else changes until the state is set to running",
  maintenance: `maintenance: REST returns 503; connections are notified and close ${closingSeconds} s later, until the state is set to running`,
  shutting_down: `shutting_down: connections are notified and close ${closingSeconds} s later; clients do not reconnect on their own`,
}

/** Unix seconds or milliseconds, or a date as ISO 8601 writes it. @returns Unix seconds */
function momentOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const number = /^\d{1,14}$/.test(text) ? Number(text) : undefined
  const seconds = number === undefined ? Date.parse(text) / 1000 : number >= 1e11 ? number / 1000 : number
  if (Number.isNaN(seconds)) throw new Misuse("--restart-at takes Unix seconds or a date such as 2030-01-31T04:00Z")
  return Math.floor(seconds)
}

/** Waits for the worker that carries the request out. */
async function outcomeOf(storage: Storage, request: string, kind: "force_logout" | "logout_all"): Promise<string> {
  for (const until = Date.now() + timeoutsMs[kind]; ; await sleep(100)) {
    const answer = await storage.operatorRequests.answerTo(request)
    if (answer) return told(answer)
    if (Date.now() > until)
      throw new Refusal(
        `request ${request} is not finished after ${timeoutsMs[kind] / 1000} s. It continues while a server runs`,
      )
  }
}

function told(answer: OperatorAnswer): string {
  if ("refusal" in answer) throw new Refusal(errors[answer.refusal as ErrorCode]?.message ?? answer.refusal)
  const { ended, failed = 0 } = answer
  const done = `${ended} session${ended === 1 ? "" : "s"} ended`
  if (failed > 0)
    throw new Refusal(
      `${done}; those of ${failed} user${failed === 1 ? " are" : "s are"} refused, but could not be deleted: see the log of the servers`,
    )
  return done
}
