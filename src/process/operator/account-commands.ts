import { setTimeout as sleep } from "node:timers/promises"
import { botTokenOf, hashSecret, newBotSecret } from "../../cluster/tokens.ts"
import { errors, fail, type ErrorCode } from "../../contract/core/errors.ts"
import { limits } from "../../contract/core/limits.ts"
import { isAdministrator } from "../../domain/accounts/accounts.ts"
import { createUsernameRules } from "../../http/accounts/username-rules.ts"
import type { Storage } from "../../storage/storage.ts"
import type { UserRow } from "../../storage/accounts/users.ts"
import { dateOf, Misuse, Refusal, requireReason, userCalled, within, type Commands, type Saying } from "./saying.ts"

/** Milliseconds until nobody is waited for any longer. */
const timeoutMs = 30_000
/** Further than any session lasts. */
const forEver = 9_999_999_999

/** Single accounts, and bots. */
export const accountCommands: Commands = {
  lock: {
    takes: ["USER"],
    options: ["hours", "reason"],
    async run({ storage, given: [name], options: { hours, reason = null } }) {
      requireReason(reason)
      const lastsHours = within("hours", hours, 876_000)
      const until = lastsHours === undefined ? forEver : Math.floor(Date.now() / 1000) + lastsHours * 3600
      const user = await userCalled(storage, name!)
      await obeyed(storage, user, "lockAccount", { until, reason })
      return `${user.username} is locked ${lastsHours === undefined ? "permanently" : `until ${dateOf(until)}`}`
    },
  },

  unlock: {
    takes: ["USER"],
    async run({ storage, given: [name] }) {
      const user = await userCalled(storage, name!)
      const { wasLocked } = await obeyed(storage, user, "unlockAccount", {})
      return `${user.username} ${wasLocked ? "is unlocked" : "was not locked by an operator"}`
    },
  },

  rename: {
    takes: ["USER"],
    options: ["reason"],
    async run({ storage, given: [name], options: { reason = null } }) {
      requireReason(reason)
      const user = await userCalled(storage, name!)
      if (user.bot) throw new Refusal(`${user.username} is a bot: bots cannot choose a name`)
      await obeyed(storage, user, "forceRename", { reason })
      return `${user.username} must choose another name`
    },
  },

  "cancel-deletion": {
    takes: ["USER"],
    async run({ storage, given: [name] }) {
      const user = await userCalled(storage, name!)
      const { cancelled } = await obeyed(storage, user, "cancelDeletion", {})
      if (!cancelled) throw new Refusal(`${user.username} is not scheduled for deletion`)
      return `${user.username}: deletion cancelled; the user can sign in again`
    },
  },

  "second-factor off": {
    takes: ["USER"],
    async run({ storage, given: [name] }) {
      const user = await userCalled(storage, name!)
      const { wasOn, codes } = await obeyed(storage, user, "dropSecondFactor", {})
      if (wasOn !== true)
        return `${user.username} had no second factor${codes === 0 ? "" : "; an unconfirmed setup was removed"}`
      return `${user.username} now signs in with the password only; invalidated backup codes: ${String(codes)}`
    },
  },

  grant: { takes: ["USER", "PERMISSION"], run: saying => setPermission(saying, true) },
  "revoke-grant": { takes: ["USER", "PERMISSION"], run: saying => setPermission(saying, false) },

  "bot create": {
    takes: ["NAME"],
    options: ["owner"],
    async run({ storage, given: [name], options, policy }) {
      const { refusal } = await createUsernameRules(policy, storage.bannedUsernames)()
      const refused = isLong(name!) ? fail("invalid_username") : refusal(name!)
      if (refused) throw new Misuse(`${name}: ${refused.message}`)
      if (options["owner"] === undefined) throw new Misuse("--owner is required: the owner of the bot")
      const owner = await userCalled(storage, options["owner"])
      if (owner.bot) throw new Refusal(`${owner.username} is a bot`)
      if (await storage.users.findByLogin(name!)) throw new Refusal(`there already is a ${name}`)
      const secret = newBotSecret()
      const { id } = await obeyed(storage, owner, "createBot", { name, token_hash: hashSecret(secret) })
      if (typeof id !== "string")
        throw new Refusal(`${owner.username} has ${limits.botsPerOwner} bots, which is the maximum`)
      return `${name} is bot ${id}. The token is shown only once:\n${botTokenOf(id, secret)}`
    },
  },

  "bot token": {
    takes: ["BOT"],
    async run({ storage, given: [name] }) {
      const bot = await botCalled(storage, name!)
      const secret = newBotSecret()
      await obeyed(storage, bot, "issueBotToken", { token_hash: hashSecret(secret) })
      return `the new token of ${bot.username} is shown only once:\n${botTokenOf(bot.id, secret)}`
    },
  },

  "bot revoke": {
    takes: ["BOT"],
    async run({ storage, given: [name] }) {
      const bot = await botCalled(storage, name!)
      const { ended } = await obeyed(storage, bot, "revokeBot", {})
      return ended === 0 ? `${bot.username} had no token` : `${bot.username} no longer has a token`
    },
  },

  "bot list": {
    takes: ["USER"],
    async run({ storage, given: [name] }) {
      const owner = await userCalled(storage, name!)
      const bots = await storage.bots.ownedBy(owner.id)
      const lines = bots.map(({ id, username, hasToken }) => `${id}  ${username}${hasToken ? "" : "  without a token"}`)
      return lines.join("\n") || `${owner.username} has no bots`
    },
  },
}

async function setPermission({ storage, given: [name, permission] }: Saying, isGranted: boolean): Promise<string> {
  if (permission !== "administrator") throw new Misuse("the only permission is administrator")
  const user = await userCalled(storage, name!)
  const { permissions } = await obeyed(storage, user, "setPermission", { permission, isGranted })
  const held = permissions as readonly string[]
  if (!isAdministrator(held)) return `${user.username} is no longer an administrator`
  return `${user.username} is an administrator${isGranted ? "" : `: ${held.join(", ")} makes one, too`}`
}

const isLong = (name: string) => name.length < limits.username.min || name.length > limits.username.max

async function botCalled(storage: Storage, text: string): Promise<UserRow> {
  const bot = await userCalled(storage, text)
  if (!bot.bot) throw new Refusal(`${bot.username} is not a bot`)
  return bot
}

/** Waits for the worker that does it. @returns what it says */
export async function obeyed(storage: Storage, user: UserRow, command: string, input: object) {
  const request = await storage.operatorRequests.command(user.id, command, input)
  for (const until = Date.now() + timeoutMs; ; await sleep(100)) {
    const answer = await storage.operatorRequests.answerToCommand(request)
    if (answer && "reply" in answer) return answer.reply
    if (answer) throw new Refusal(errors[answer.refusal as ErrorCode]?.message ?? answer.refusal)
    if (Date.now() > until)
      throw new Refusal(
        `no server carried it out within ${timeoutMs / 1000} s. It is carried out as soon as a server runs. A new token of it is lost: run the command again then`,
      )
  }
}
