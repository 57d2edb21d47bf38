import { userActor } from "../actors/user.ts"
import type { Snowflake } from "../contract/core/fields.ts"
import { type Processor, unlessGone } from "./processor.ts"

/** As many as a home tells in one turn. */
const batchSize = 500

/**
 * Who is notified is read after the change was committed: a user who came later has read the new
 * state.
 */
export const announceUser: Processor<"announceUser"> = async ({ ask, storage, signal }, { user_id }) => {
  const { people, servers, directs } = await storage.users.onlookers(user_id)
  for (let at = 0; at < Math.max(people.length, servers.length, directs.length); at += batchSize) {
    signal.throwIfAborted()
    const some = (ids: readonly Snowflake[]) => ids.slice(at, at + batchSize)
    const told = { people: some(people), servers: some(servers), directs: some(directs) }
    await unlessGone("user_not_found", ask(userActor, user_id, { type: "announce", ...told }))
  }
}
