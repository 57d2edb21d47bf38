/**
 * The floor of a heartbeat: uWebSockets.js answers whatever comes with the bytes of HEARTBEAT_ACK,
 * after READY to what comes first. It reads nothing of it.
 */
import uWS from "uWebSockets.js"
import { opcodes } from "../../src/contract/core/gateway-codes.ts"
import { serve, upgrade } from "./serve.ts"

interface Client {
  isReady: boolean
}

const hello = JSON.stringify({ op: opcodes.HELLO.op, d: { heartbeat_interval: 45_000 } })
const ready = JSON.stringify({ op: opcodes.DISPATCH.op, t: "READY", s: 1, d: { session_id: "0" } })
const ack = JSON.stringify({ op: opcodes.HEARTBEAT_ACK.op })

const app = uWS.App()

app.ws<Client>("/gateway", {
  idleTimeout: 0,
  upgrade: (res, req, context) => upgrade<Client>(res, req, context, { isReady: false }),
  open: ws => {
    ws.send(hello)
  },
  message: ws => {
    const client = ws.getUserData()
    ws.send(client.isReady ? ack : ready)
    client.isReady = true
  },
})

serve(app)
