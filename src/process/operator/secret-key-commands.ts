import { Refusal, type Commands } from "./saying.ts"

/** The key that every server of the database has to have. */
export const secretKeyCommands: Commands = {
  "secret-key forget": {
    takes: [],
    isForStopped: true,
    async run({ storage }) {
      const outcome = await storage.serverStatus.forgetSecretKey()
      if ("running" in outcome)
        throw new Refusal(
          `servers are still connected to the database: ${outcome.running.join(", ")}. Stop them all, on every host`,
        )
      const { switchedOff, codes } = outcome
      return (
        `the next server sets the new key; disabled second factors: ${switchedOff}, ` +
        `invalidated backup codes: ${codes}`
      )
    },
  },
}
