import { serverActor } from "../actors/server.ts"
import { type Processor, unlessGone } from "./processor.ts"
import { ending, type Sweep } from "./sweep.ts"

export const expireInvite: Processor<"expireInvite"> = ({ ask }, { server_id, code }) =>
  unlessGone("server_not_found", ask(serverActor, server_id, { type: "expireInvite", code }))

export const sweeps: readonly Sweep[] = [
  ending(({ invites }, beforeS, limit) => invites.expired(beforeS, limit), expireInvite),
]
