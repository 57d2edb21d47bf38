import type { routes } from "../../contract/operators/logs.ts"
import type { LogFiles } from "../../storage/core/log-files.ts"
import type { Handlers } from "../server/handlers.ts"
import type { Uses } from "../shared/http.ts"

type Needs = Uses<{ readonly logFiles: LogFiles }>

export const operatorLogs = ({ integrations: { logFiles } }: Needs): Handlers<typeof routes> => ({
  listLogs: () => logFiles.list(),
  getLog: ({ params, query: { q, search = q, ...page } }) => logFiles.page(params.filename, { ...page, search }),
})
