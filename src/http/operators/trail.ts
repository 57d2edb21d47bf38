import type { routes } from "../../contract/operators/trail.ts"
import type { Handlers } from "../server/handlers.ts"
import type { Http } from "../shared/http.ts"

export const trail = ({ storage }: Http<"operatorTrail">): Handlers<typeof routes> => ({
  listTrail: ({ query }) => storage.operatorTrail.page(query),
})
