import { newAccount, type Account } from "../../domain/accounts/accounts.ts"
import type { AgeGate } from "../../domain/accounts/birth-dates.ts"
import { secondsAt } from "../../std/clock.ts"
import type { Http, Policy } from "../shared/http.ts"

export interface NewcomerPolicy extends Pick<AgeGate, "age_gate_enabled"> {
  readonly alpha_registration: boolean
}

/** The account of somebody who is new here, with what the operator gives to everybody. */
export const newcomer = (
  { policy, clock }: Pick<Http, "clock"> & Policy<NewcomerPolicy>,
  known: Pick<Account, "username" | "email" | "password_hash"> & Partial<Account>,
): Account =>
  newAccount({
    created_at: secondsAt(clock()),
    // The age was checked before.
    age_verified: policy.age_gate_enabled,
    ...(policy.alpha_registration && { tier: "alpha", badges: ["alpha_tester"] }),
    ...known,
  })
