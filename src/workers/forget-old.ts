import { focusSeconds } from "../domain/accounts/settings.ts"
import { daySeconds } from "../domain/service/telemetry.ts"
import { forgetting, type Sweep } from "./sweep.ts"

/** What is over by itself and needs no job. */
export const sweeps: readonly Sweep[] = [
  forgetting(({ settings }, beforeS, limit) => settings.forgetFocus(beforeS - focusSeconds, limit)),
  forgetting(({ tells }, _, limit) => tells.forgetOld(limit)),
  forgetting(({ oneTimeTokens }, beforeS, limit) => oneTimeTokens.forgetExpired(beforeS, limit)),
  forgetting(({ oauth }, beforeS, limit) => oauth.forgetExpired(beforeS, limit)),
  forgetting(({ operatorTrail }, _, limit) => operatorTrail.forgetOld(limit)),
  forgetting(({ accessUses }, beforeS, limit) => accessUses.forgetEvents(beforeS, limit)),
  forgetting(({ accessUses }, beforeS, limit) => accessUses.forgetAddresses(beforeS, limit)),
  ({ storage }) =>
    () =>
      storage.placement.forgetDead(),
  ({ storage, now }) =>
    () =>
      storage.telemetry.keepDays(now()),
  forgetting(({ telemetry }, beforeS, limit) => telemetry.forgetWriters(beforeS - daySeconds, limit)),
]
