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
          `servers are connected to the database: ${outcome.running.join(", ")}; stop them all, on every host`,
        )
      const { switchedOff, codes } = outcome
      return (
        `the next server brings the key that counts from then on; second factors that were switched off: ${switchedOff}, ` +
        `backup codes that are void: ${codes}`
      )
    },
  },
}
