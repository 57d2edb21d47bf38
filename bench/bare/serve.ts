import uWS from "uWebSockets.js"
import type { HttpRequest, HttpResponse, TemplatedApp, us_socket_context_t } from "uWebSockets.js"

/** Listens on any free port and tells the benchmark, which started this process and ends it. */
export function serve(app: TemplatedApp): void {
  app.listen("127.0.0.1", 0, socket => {
    if (!socket) throw new Error("no port to listen on")
    process.send?.({ port: uWS.us_socket_local_port(socket) })
  })
  process.on("disconnect", () => process.exit())
}

/** A WebSocket with what belongs to its client. */
export function upgrade<Client>(
  res: HttpResponse,
  req: HttpRequest,
  context: us_socket_context_t,
  client: Client,
): void {
  res.upgrade(
    client,
    req.getHeader("sec-websocket-key"),
    req.getHeader("sec-websocket-protocol"),
    req.getHeader("sec-websocket-extensions"),
    context,
  )
}

/**
 * As little as a JSON interface can do with a request: its headers are looked at, its body is
 * parsed, nothing is checked.
 */
export function onJson(res: HttpResponse, req: HttpRequest, take: (body: unknown) => void): void {
  req.getHeader("authorization")
  res.onAborted(() => {
    res["gone"] = true
  })
  let read: Buffer | undefined
  res.onData((chunk, isLast) => {
    const bytes = Buffer.from(chunk)
    // The chunk dies with this call.
    if (!isLast) read = read ? Buffer.concat([read, bytes]) : Buffer.from(bytes.toString())
    else take(JSON.parse((read ? Buffer.concat([read, bytes]) : bytes).toString()))
  })
}

export function reply(res: HttpResponse, body: unknown): void {
  if (res["gone"]) return
  res.cork(() => {
    res.writeHeader("Content-Type", "application/json").end(JSON.stringify(body))
  })
}
