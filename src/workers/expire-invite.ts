import { serverActor } from "../actors/server.ts"
import { type Processor, unlessGone } from "./processor.ts"

export const expireInvite: Processor<"expireInvite"> = ({ ask }, { server_id, code }) =>
  unlessGone("server_not_found", ask(serverActor, server_id, { type: "expireInvite", code }))
