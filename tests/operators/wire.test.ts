/** What the page of operators takes an answer for is what the contract says of it. */
import { expect, expectTypeOf, test } from "vitest"
import { operatorRoutes, routes } from "../../src/contract/contract.ts"
import type { ReplyOf, Route } from "../../src/contract/core/registry.ts"
import { trailActions } from "../../web/operator/trail-actions.ts"
import type { BannedName, Rule, ServerState, Wire } from "../../web/operator/wire.ts"

/** The routes that the operator's page calls, by its names for them. */
const called = {
  "POST /login": "operatorLogin",
  "POST /verify-otp": "verifyOperatorOtp",
  "POST /logout": "operatorLogout",
  "GET /auth/security-status": "getOperatorSecurity",
  "POST /auth/change-password": "changeOperatorPassword",
  "POST /auth/2fa/begin-setup": "beginOperatorOtp",
  "POST /auth/2fa/disable": "disableOperatorOtp",
  "POST /auth/2fa/regenerate-backup-codes": "renewOperatorBackupCodes",
  "GET /dashboard": "getDashboard",
  "GET /now": "getNow",
  "GET /trail": "listTrail",
  "GET /logs": "listLogs",
  "GET /logs/:filename": "getLog",
  "GET /tickets": "listTickets",
  "GET /tickets/:ticket_id": "getTicket",
  "PATCH /tickets/:ticket_id/status": "setTicketStatus",
  "GET /tickets/:ticket_id/notes": "listTicketNotes",
  "POST /tickets/:ticket_id/notes": "addTicketNote",
  "GET /users/search": "findAccounts",
  "GET /users/scheduled-deletions": "listScheduledDeletions",
  "GET /users/:user_id": "getUserDetail",
  "PUT /users/:user_id/tier": "setTier",
  "POST /users/:user_id/badges/:badge": "addBadge",
  "DELETE /users/:user_id/badges/:badge": "removeBadge",
  "GET /users/:user_id/notes": "getUserNotes",
  "POST /users/:user_id/notes": "setUserNotes",
  "POST /users/:user_id/force-username-change": "forceUsernameChange",
  "POST /users/:user_id/cancel-deletion": "cancelDeletion",
  "POST /users/:user_id/delay-deletion": "delayDeletion",
  "POST /users/:user_id/force-purge": "forcePurge",
  "POST /security/force-logout": "forceLogout",
  "POST /security/lock-user": "lockUser",
  "POST /security/unlock-user": "unlockUser",
  "POST /security/logout-all": "logoutAll",
  "GET /api/v1/admin/tiers": "listTiers",
  "GET /api/v1/admin/badges": "listBadges",
  "GET /security/blocked-ips": "listBlockedAddresses",
  "POST /security/block-ip": "blockAddress",
  "DELETE /security/unblock-ip/:ip_address*": "unblockAddress",
  "GET /security/banned-usernames": "listBannedUsernames",
  "POST /security/banned-usernames": "banUsername",
  "DELETE /security/banned-usernames/:pattern_id": "unbanUsername",
  "GET /security/access-tokens": "listAccessTokens",
  "POST /security/access-tokens": "createAccessToken",
  "GET /security/access-tokens/:token_id": "getAccessToken",
  "PATCH /security/access-tokens/:token_id": "editAccessToken",
  "POST /security/access-tokens/:token_id/rotate": "rotateAccessToken",
  "POST /security/access-tokens/:token_id/scopes": "addAccessTokenScope",
  "DELETE /security/access-tokens/:token_id/scopes/:scope_id": "removeAccessTokenScope",
  "POST /security/access-tokens/:token_id/revoke": "revokeAccessToken",
  "GET /hash-reports": "listHashReports",
  "GET /hash-reports/counts": "countHashReports",
  "POST /hash-reports/:report_id/review": "reviewHashReport",
  "GET /message-reports": "listMessageReports",
  "GET /message-reports/counts": "countMessageReports",
  "GET /message-reports/:report_id/context": "getMessageReportContext",
  "POST /message-reports/:report_id/review": "reviewMessageReport",
  "GET /user-reports": "listUserReports",
  "GET /user-reports/counts": "countUserReports",
  "POST /user-reports/:report_id/review": "reviewUserReport",
  "GET /blocked-hashes": "listBlockedHashes",
  "POST /blocked-hashes": "blockHash",
  "DELETE /blocked-hashes/:hash_value": "unblockHash",
  "GET /blocked-users": "listBlockedUploaders",
  "POST /blocked-users": "blockUploader",
  "DELETE /blocked-users/:user_id": "unblockUploader",
  "GET /automod/rules": "listOperatorAutomodRules",
  "POST /automod/rules": "createOperatorAutomodRule",
  "PATCH /automod/rules/:rule_id": "editOperatorAutomodRule",
  "DELETE /automod/rules/:rule_id": "deleteOperatorAutomodRule",
  "POST /automod/test": "testAutomodRule",
  "GET /automod/config": "getAutomodSettings",
  "PUT /automod/config": "setAutomodSettings",
  "GET /telemetry/stats": "getTelemetryStats",
  "GET /telemetry/history": "getTelemetryHistory",
  "POST /telemetry/reset": "resetTelemetry",
  "GET /server-state": "getServerState",
  "PUT /server-state": "putServerState",
} as const satisfies Record<keyof Wire, keyof Known>

const known = { ...operatorRoutes, ...routes }
type Known = typeof known
type Called = typeof called
type Reply<Name extends keyof Wire> = ReplyOf<Known[Called[Name]]>

/** Where the server answers what the page does not read as such. */
type Misread = { [Name in keyof Wire]: Reply<Name> extends Wire[Name]["reply"] ? never : Name }[keyof Wire]
/** What the page would lose when it writes again what it has read. */
type Lost<Read, Known> = Exclude<keyof Read, keyof Known>

test("the page reads what the contract says that the server answers", () => {
  expectTypeOf<Misread>().toBeNever()
  expectTypeOf<Lost<Reply<"GET /automod/rules">[number], Rule>>().toBeNever()
  expectTypeOf<Lost<Reply<"GET /server-state">, ServerState>>().toBeNever()
  expectTypeOf<Lost<Reply<"GET /security/banned-usernames">[number], BannedName>>().toBeNever()
  const names = Object.entries(called).map(([, name]) => {
    const { method, path, mount, takesRest }: Route = known[name]
    const place = mount === "operators" ? path.replace(/^\/admin/, "") : `/api/v1${path}`
    return `${method} ${place}${takesRest ? "*" : ""}`
  })
  expect(names).toEqual(Object.keys(called))
})

test("the trail can be searched for each action that it keeps", () => {
  const kept = Object.entries<Route>(known).filter(
    ([, { mount, method, trail }]) => mount === "operators" && (trail !== undefined || method !== "GET"),
  )
  expect(kept.map(([name]) => name).toSorted()).toEqual(trailActions)
})
