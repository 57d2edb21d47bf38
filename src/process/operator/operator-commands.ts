import { randomInt } from "node:crypto"
import { codePoints, isVisible } from "../../contract/core/fields.ts"
import { createHashing } from "../../integrations/password-hashing.ts"
import { dateOf, Misuse, Refusal, type Commands, type Saying } from "./saying.ts"

const longestName = 100
const passwordCharacters = 24
/** Without those that look like others. */
const alphabet = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789"

/** The accounts of the operator area. */
export const operatorCommands: Commands = {
  create: {
    takes: ["NAME"],
    async run(saying) {
      const { storage } = saying
      const name = saying.given[0]!.trim()
      if (codePoints(name) > longestName || !isVisible(name))
        throw new Misuse(`a name has 1 to ${longestName} characters`)
      const { password, password_hash } = await newPassword(saying)
      const id = await storage.operators.create(name, password_hash)
      if (id === undefined) throw new Refusal(`there already is an operator ${name}`)
      await note(saying, "create", name)
      return `${name} is operator ${id}. The first sign-in sets up an authenticator app. The password is shown only once:\n${password}`
    },
  },

  list: {
    takes: [],
    async run({ storage }) {
      const lines = (await storage.operators.list()).map(({ id, name, last_login, totp_secret, sessions }) =>
        [
          id,
          name,
          last_login === null ? "never signed in" : `last signed in ${dateOf(last_login)}`,
          totp_secret === null ? "no authenticator app" : "with an authenticator app",
          `${sessions} session${sessions === 1 ? "" : "s"}`,
        ].join("  "),
      )
      return lines.join("\n") || "there are no operators"
    },
  },

  reset: {
    takes: ["NAME"],
    async run(saying) {
      const name = saying.given[0]!
      const { password, password_hash } = await newPassword(saying)
      if (!(await saying.storage.operators.reset(name, password_hash))) throw noSuch(name)
      await note(saying, "reset", name)
      return `${name}: sessions ended; the next sign-in sets up an authenticator app. The new password is shown only once:\n${password}`
    },
  },

  remove: {
    takes: ["NAME"],
    async run(saying) {
      const name = saying.given[0]!
      if (!(await saying.storage.operators.remove(name))) throw noSuch(name)
      await note(saying, "remove", name)
      return `${name} is no longer an operator`
    },
  },
}

const noSuch = (name: string) => new Refusal(`no such operator: ${name}`)

async function newPassword({ policy }: Saying): Promise<{ password: string; password_hash: string }> {
  const password = Array.from({ length: passwordCharacters }, () => alphabet[randomInt(alphabet.length)]).join("")
  const hashing = createHashing({
    memoryKib: policy.password_hash_memory,
    passes: policy.password_hash_passes,
    maxConcurrent: 1,
    timeoutMs: 60_000,
  })
  return { password, password_hash: await hashing.hash(password) }
}

/** In the trail of operators, too: who may use the command line may do this. */
async function note({ storage }: Saying, command: string, name: string): Promise<void> {
  const entry = { operator: undefined, action: `command line: ${command}`, target: name, input: "{}", address: "" }
  const id = await storage.operatorTrail.begin(entry)
  await storage.operatorTrail.end(id, { outcome: 200, error: undefined, result: "{}" })
}
