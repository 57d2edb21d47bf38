import type { routes } from "../../contract/contract.ts"
import { errors, Failure } from "../../contract/core/errors.ts"
import type { SignInOutcome, SignInWay } from "../../observability/metrics.ts"
import type { Handlers } from "../server/handlers.ts"

export interface SignInCountNeeds {
  readonly telemetry: { readonly noteSignIn: (way: SignInWay, outcome: SignInOutcome) => void }
}

/** The routes that end in a session, or in a challenge for one. */
const ways = {
  login: "password",
  completeTwoFactor: "second_factor",
  completeOAuth: "provider",
  completePasskeySignIn: "passkey",
  completePasskeyFactor: "second_factor",
  operatorLogin: "operator",
  verifyOperatorOtp: "operator",
} as const satisfies Partial<Record<keyof typeof routes, SignInWay>>

type Note = SignInCountNeeds["telemetry"]["noteSignIn"]

/** The same handlers; how each attempt to sign in ends is counted. */
export function countSignIns(handlers: Handlers<typeof routes>, note: Note): Handlers<typeof routes> {
  const counted = Object.fromEntries(
    Object.entries(ways).map(([route, way]) => {
      const handle = handlers[route as keyof typeof ways] as (call: unknown) => Promise<{ status: string }>
      const handler = async (call: unknown) => {
        try {
          const reply = await handle(call)
          note(way, reply.status === "success" ? "done" : "challenged")
          return reply
        } catch (error) {
          note(way, outcomeOf(error))
          throw error
        }
      }
      return [route, handler]
    }),
  )
  return { ...handlers, ...counted }
}

function outcomeOf(error: unknown): SignInOutcome {
  if (!(error instanceof Failure)) return "failed"
  if (error.code === "account_locked" || error.code === "operator_locked") return "locked"
  const { status } = errors[error.code]
  if (status >= 500) return "failed"
  return status === 401 ? "wrong" : "refused"
}
