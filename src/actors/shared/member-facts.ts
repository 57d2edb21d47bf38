import type { MemberState, ServerState } from "../../domain/communities/servers.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import type { Need } from "../../runtime/facts.ts"
import { defineFact } from "./facts.ts"

/** Who is in a server, as far as its commands asked. */
export const memberFacts = defineFact<ServerState, MemberState>({
  keep: 5_000,
  // Outside servers the participants are known, and are no members.
  load: (storage, server, users, { participants }) =>
    participants === null ? storage.servers.members(server, users) : Promise.resolve(new Map()),
})
export const member = (user: Snowflake): Need<ServerState> => memberFacts.need(user)
