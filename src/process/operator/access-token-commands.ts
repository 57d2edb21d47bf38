import { hashSecret, newSecret } from "../../cluster/tokens.ts"
import { codePoints } from "../../contract/core/fields.ts"
import {
  accessTokenBytes,
  isAccessToken,
  isScopeMode,
  maxAccessTokens,
  maxScopes,
} from "../../domain/service/access-tokens.ts"
import { formatRange, parseRange } from "../../domain/core/client-address.ts"
import { dateOf, isBigint, Misuse, Refusal, within, type Commands } from "./saying.ts"

const longestName = 100

/** What applications have to present. */
export const accessTokenCommands: Commands = {
  "access-token create": {
    takes: ["NAME"],
    options: ["mode", "days"],
    lists: ["scope"],
    flags: ["token-stdin"],
    async run({ storage, given: [name], options: { mode, days }, lists: { scope = [] }, flags, input }) {
      if (name!.trim() === "" || codePoints(name!) > longestName)
        throw new Misuse(`a name has 1 to ${longestName} characters`)
      if (scope.length > maxScopes) throw new Misuse(`--scope can be given ${maxScopes} times at most`)
      const scopes = scope.map(text => {
        const range = parseRange(text)
        if (!range) throw new Misuse(`--scope: ${text} is not an IP address or a CIDR range`)
        return formatRange(range)
      })
      const chosen = mode ?? (scopes.length > 0 ? "enforce" : "none")
      if (!isScopeMode(chosen)) throw new Misuse("--mode takes none, monitor or enforce")
      const lastsDays = within("days", days, 36_500)
      const given = flags.has("token-stdin") ? (await input()).trim() : undefined
      if (given !== undefined && !isAccessToken(given))
        throw new Misuse("--token-stdin: a token has 32 to 128 characters of A-Z a-z 0-9 . _ ~ -")
      const token = given ?? newSecret(accessTokenBytes)
      const made = await storage.accessTokens.create({
        name: name!,
        token_hash: hashSecret(token),
        mode: chosen,
        scopes,
        expires_at: lastsDays === undefined ? null : Math.floor(Date.now() / 1000) + lastsDays * 86_400,
      })
      if (made === "taken") throw new Refusal("this token is or was in use: choose another")
      if (made === undefined) throw new Refusal(`there are ${maxAccessTokens} tokens, which is the maximum`)
      const warning =
        chosen === "enforce" && scopes.length === 0
          ? "warning: in this mode a token without --scope is always refused\n"
          : ""
      const shown = given === undefined ? `; it is shown only once:\n${token}` : ""
      return `${warning}access token ${made.id} is required within a second or so${shown}`
    },
  },

  "access-token revoke": {
    takes: ["ID"],
    async run({ storage, given: [id] }) {
      const revoked = isBigint(id!) ? await storage.accessTokens.revoke(id!) : undefined
      if (!revoked) throw new Refusal(`no such access token: ${id}`)
      const left = await storage.accessTokens.list()
      return `${revoked.name ?? `access token ${id}`} is refused within a second or so${left.length === 0 ? ". It was the last one: no access token is required any more" : ""}`
    },
  },

  "access-token list": {
    takes: [],
    async run({ storage }) {
      const tokens = await storage.accessTokens.list()
      const lines = tokens.map(({ id, name, expires_at, mode, scopes }) =>
        [
          id,
          name,
          expires_at === null ? "permanently" : `until ${dateOf(expires_at)}`,
          mode === "none" ? "" : `${mode} ${scopes.join(", ") || "nothing"}`,
        ]
          .filter(Boolean)
          .join("  "),
      )
      return lines.join("\n") || "there are no access tokens, so none is required"
    },
  },
}
