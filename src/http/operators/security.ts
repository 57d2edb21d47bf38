import { setTimeout as sleep } from "node:timers/promises"
import { accountOrders } from "../../actors/account-orders.ts"
import { userActor } from "../../actors/user.ts"
import { fail } from "../../contract/core/errors.ts"
import { success, type Snowflake } from "../../contract/core/fields.ts"
import type { routes } from "../../contract/operators/security.ts"
import { bannedExpression } from "../../domain/accounts/banned-usernames.ts"
import { formatRange, parseAddress, parseRange, type AddressRange } from "../../domain/core/client-address.ts"
import { isId } from "../../domain/core/snowflake.ts"
import { lockEnd } from "../../domain/operators/known-accounts.ts"
import { mayBlock } from "../../domain/service/address-blocks.ts"
import { seenByAllMs } from "../../domain/service/server-status.ts"
import { secondsAt } from "../../std/clock.ts"
import type { Handlers } from "../server/handlers.ts"
import type { Http } from "../shared/http.ts"

export interface SecurityNeeds extends Http<
  "sessions" | "bots" | "operatorRequests" | "addressBlocks" | "bannedUsernames"
> {
  readonly service: {
    /** Milliseconds from one look of every worker at what operators say of the service to the next. */
    readonly lookEveryMs: number
  }
}

function userIn(text: string): Snowflake {
  if (!isId(text)) throw fail("invalid_user_id")
  return text
}

function rangeIn(text: string): AddressRange {
  const range = parseRange(text.trim())
  if (!range) throw fail("invalid_ip_address")
  return range
}

const hour = 3_600

/** Sessions and locks, blocked addresses and banned names, as operators order them. */
export const operatorSecurity = (http: SecurityNeeds): Handlers<typeof routes> => {
  const { ask, storage, service, clock } = http
  const orders = accountOrders(http)

  return {
    async forceLogout({ body, trail }) {
      const message = "Security logout"
      const { ended } = await ask(userActor, userIn(body.user_id), { type: "endAllSessions", message })
      trail.result = { ended }
      return success
    },

    async lockUser({ body: { user_id, duration_seconds, reason = null }, trail }) {
      const until = lockEnd(duration_seconds, secondsAt(clock()))
      const { sessions } = await orders.lock(userIn(user_id), { until, reason })
      trail.result = { ended: sessions }
      return success
    },

    async unlockUser({ body, trail }) {
      const { wasLocked } = await orders.unlock(userIn(body.user_id))
      trail.result = { was_locked: wasLocked }
      return success
    },

    async logoutAll({ trail }) {
      const request = await storage.operatorRequests.logoutAll()
      trail.result = { request }
      // Every worker looks before the answer: then none accepts a session of before.
      await sleep(seenByAllMs(service.lookEveryMs))
      return success
    },

    listBlockedAddresses: async () =>
      (await storage.addressBlocks.list()).map(({ address, ...block }) => ({ ip_address: address, ...block })),

    async blockAddress({ body: { ip_address, reason = null, duration_hours }, operator }) {
      const range = rangeIn(ip_address)
      const own = parseAddress(operator.address)
      if (!mayBlock(range, own)) throw fail("address_not_blockable")
      const isBlocked = await storage.addressBlocks.block({
        address: formatRange(range),
        reason,
        blocked_by: operator.id,
        lastsSeconds: duration_hours === undefined ? null : duration_hours * hour,
      })
      if (!isBlocked) throw fail("address_block_limit")
      return success
    },

    async unblockAddress({ params, trail }) {
      const was_blocked = await storage.addressBlocks.unblock(formatRange(rangeIn(params.ip_address)))
      trail.result = { was_blocked }
      return success
    },

    listBannedUsernames: () => storage.bannedUsernames.list(),

    async banUsername({ body: { pattern, reason, is_regex = false }, operator }) {
      const expression = is_regex ? bannedExpression(pattern) : undefined
      if (is_regex ? !expression : pattern.trim() === "") throw fail("invalid_pattern")
      const outcome = await storage.bannedUsernames.ban({
        pattern,
        is_regex,
        size: expression?.size ?? 0,
        reason: reason || null,
        created_by: operator.id,
      })
      if (outcome === "known") throw fail("pattern_exists")
      if (outcome === "full") throw fail("banned_username_limit")
      return success
    },

    async unbanUsername({ params, trail }) {
      trail.result = { was_banned: await storage.bannedUsernames.lift(params.pattern_id) }
      return success
    },
  }
}
