import { newAccount, type Account } from "../domain/accounts.ts"
import { secondsAt } from "../domain/clock.ts"
import type { Http } from "./server/handlers.ts"

/** The account of somebody who is new here, with what the operator gives to everybody. */
export const newcomer = (
  { policy, clock }: Pick<Http, "policy" | "clock">,
  known: Pick<Account, "username" | "email" | "password_hash"> & Partial<Account>,
): Account =>
  newAccount({
    created_at: secondsAt(clock()),
    // Whoever has come this far has passed the gate.
    age_verified: policy.age_gate_enabled,
    ...(policy.alpha_registration && { tier: "alpha", badges: ["alpha_tester"] }),
    ...known,
  })
