import { routes } from "../contract/contract.ts"
import type { Snowflake } from "../contract/core/fields.ts"
import type { Route } from "../contract/core/registry.ts"
import { isSigned } from "../domain/messages/attachments.ts"
import type { PlacedUse } from "../domain/service/access-uses.ts"
import { createHandlers, type HandlerNeeds } from "./routes.ts"
import type { OperatorAreaOptions } from "./server/operator-area.ts"
import type { AccessOptions } from "./server/access.ts"
import { createHttpServer, type HttpServer, type HttpServerOptions } from "./server/server.ts"
import { createSessionActivity } from "./accounts/session-activity.ts"
import type { Policy } from "./shared/http.ts"
import type { SignInCountNeeds } from "./shared/sign-in-outcomes.ts"

export interface RestServerOptions extends Omit<
  HttpServerOptions,
  "handlers" | "access" | "operators" | "log" | "clock" | "timings"
> {
  readonly access: Omit<AccessOptions, "gate" | "isSignedLink" | "noteSessionUse">
  /** A user may have changed something; they are answered afterwards. */
  readonly noteWrite?: ((user: Snowflake) => Promise<void>) | undefined
}

/** Who hears of each use of an access token, and of uses of sessions that are to be written down. */
interface GateNeeds {
  readonly service: {
    readonly noteAccessUse: (use: PlacedUse) => void
    readonly noteSessionUse: (session: Snowflake) => void
  }
}

/** What the operator area needs beside its handlers. */
type AreaNeeds = Pick<OperatorAreaOptions, "storage"> & Policy<OperatorAreaOptions["rules"]>

/** The same handlers; it is noted of every request of a user that is no mere question, however it ends. */
function notingWrites(
  handlers: HttpServerOptions["handlers"],
  note: RestServerOptions["noteWrite"],
): HttpServerOptions["handlers"] {
  if (!note) return handlers
  type Handle = (call: { readonly caller?: { readonly user_id: Snowflake } }) => unknown
  const noted = Object.entries(handlers as unknown as Record<string, Handle>).map(([name, handle]) => {
    if ((routes as Readonly<Record<string, Route>>)[name]?.method === "GET") return [name, handle]
    const noting: Handle = async call => {
      try {
        return await handle(call)
      } finally {
        if (call.caller) await note(call.caller.user_id)
      }
    }
    return [name, noting]
  })
  return Object.fromEntries(noted) as HttpServerOptions["handlers"]
}

/** The handlers of all resources behind the transport. */
export function createRestServer(
  needs: HandlerNeeds & AreaNeeds & GateNeeds & SignInCountNeeds,
  options: RestServerOptions,
): HttpServer {
  const { clock, log, service, integrations, telemetry } = needs
  return createHttpServer({
    ...options,
    handlers: notingWrites(createHandlers(needs), options.noteWrite),
    access: {
      ...options.access,
      gate: { accessTokens: service.accessTokens, noteUse: service.noteAccessUse },
      noteSessionUse: createSessionActivity(needs, service.noteSessionUse),
      isSignedLink(file, query) {
        const given = { exp: query.get("exp"), sig: query.get("sig") }
        return isSigned(file, given, clock(), text => integrations.secrets.digest(text, "attachments"))
      },
    },
    operators: { rules: needs.policy, storage: needs.storage },
    clock,
    log,
    timings: telemetry.timings,
  })
}
