import { isSigned } from "../domain/messages/attachments.ts"
import { createHandlers, type HandlerNeeds } from "./routes.ts"
import type { AccessOptions } from "./server/access.ts"
import { createHttpServer, type HttpServer, type HttpServerOptions } from "./server/server.ts"
import { createSessionActivity } from "./accounts/session-activity.ts"

export interface RestServerOptions extends Omit<HttpServerOptions, "handlers" | "access" | "log" | "clock"> {
  readonly access: Omit<AccessOptions, "accessTokens" | "isSignedLink" | "noteSessionUse">
}

/** The handlers of all resources behind the transport. */
export function createRestServer(needs: HandlerNeeds, options: RestServerOptions): HttpServer {
  const { clock, log, service, integrations } = needs
  return createHttpServer({
    ...options,
    handlers: createHandlers(needs),
    access: {
      ...options.access,
      accessTokens: service.accessTokens,
      noteSessionUse: createSessionActivity(needs),
      isSignedLink(file, query) {
        const given = { exp: query.get("exp"), sig: query.get("sig") }
        return isSigned(file, given, clock(), text => integrations.secrets.digest(text, "attachments"))
      },
    },
    clock,
    log,
  })
}
