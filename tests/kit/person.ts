import { NodeWebSocket } from "../../bench/load/node-websocket.ts"
import { GatewayClient, type EventData, type GatewayClose, type GatewayOptions } from "../../client/gateway.ts"
import { createClient, type Client } from "../../client/rest.ts"
import { routes, type Routes } from "../../src/contract/contract.ts"
import { allIntents, bitOf } from "../../src/contract/core/intents.ts"
import { checkedFetch, checkReply, checkSent, frameCheck, noteClose } from "./conformance.ts"
import { until } from "./until.ts"

/** Where requests go: a worker of this process, or a server of its own. */
export interface Endpoint {
  readonly url: string
  /** Versions work together there: a reply or an event may be of the one before, which knows less. */
  readonly isMixed?: boolean
}

export type Starling = Client<Routes>

/** A client whose replies are held against the contract. */
export const clientAt = ({ url, isMixed }: Endpoint, token?: string): Starling =>
  createClient(
    {
      baseUrl: url,
      ...(token !== undefined && { token }),
      fetch: checkedFetch,
      ...(!isMixed && { checkReplies: checkReply }),
    },
    routes,
  )

/** All but presences: in most stories who comes and goes beside what is told is no part of it. */
export const usualIntents = allIntents & ~bitOf("GUILD_PRESENCES")

/** A gateway client whose frames are held against the contract; it keeps its events and stays away once it is dropped. */
export class Listener extends GatewayClient {
  #paused = false
  #end: GatewayClose | undefined

  constructor({ url, isMixed }: Endpoint, options: Omit<GatewayOptions, "url">) {
    const { intents = usualIntents, onFrame } = options
    const check = frameCheck(intents, isMixed)
    super({
      keep: true,
      autoReconnect: false,
      // Also where Node has a client of its own: that one reads on while a test pauses it.
      WebSocket: NodeWebSocket,
      ...options,
      url,
      intents,
      onFrame: frame => {
        check(frame)
        onFrame?.(frame)
      },
    })
    this.on("close", close => {
      noteClose(close.code, close.reason)
      this.#end = close
    })
  }

  /** How the last connection ended; waits for it where it has not yet. */
  async ended(timeoutMs = 5_000): Promise<GatewayClose> {
    await until("the connection has ended", () => this.#end !== undefined, { timeoutMs })
    return this.#end!
  }

  override send(frame: object | string | Uint8Array<ArrayBuffer>): void {
    checkSent(frame)
    super.send(frame)
  }

  override pause(): void {
    this.#paused = true
    super.pause()
  }
  override unpause(): void {
    this.#paused = false
    super.unpause()
  }

  get isPaused(): boolean {
    return this.#paused && this.state === "live"
  }
  get isListening(): boolean {
    return !this.#paused && this.state === "live"
  }
}

/** An account with a session, and everything that its owner has open. */
export class Person {
  readonly id: string
  readonly username: string
  readonly email: string
  readonly password: string
  readonly token: string
  /** All of the account's, whichever session they are on. */
  readonly clients: Listener[]
  readonly #rest = new Map<string, Starling>()

  private constructor(
    { id, username, email, password }: Pick<Person, "id" | "username" | "email" | "password">,
    token: string,
    clients: Listener[] = [],
  ) {
    this.id = id
    this.username = username
    this.email = email
    this.password = password
    this.token = token
    this.clients = clients
  }

  static async register(at: Endpoint, username: string): Promise<Person> {
    const email = `${username}@example.com`
    const password = "Correct-Horse-9"
    const { token, user } = await clientAt(at).register({ username, email, password })
    return new Person({ id: user!.id, username, email, password }, token!)
  }

  /** REST as this person. Kept, since a client is a function for each route there is. */
  on(endpoint: Endpoint): Starling {
    const at = `${endpoint.url} ${endpoint.isMixed}`
    let client = this.#rest.get(at)
    if (!client) this.#rest.set(at, (client = clientAt(endpoint, this.token)))
    return client
  }

  /** Signs in once more: the same account with a session of its own. */
  async signIn(endpoint: Endpoint): Promise<Person> {
    const { token } = await clientAt(endpoint).login({ username: this.username, password: this.password })
    return new Person(this, token!, this.clients)
  }

  /** A gateway client that is not connected yet. */
  gateway(endpoint: Endpoint, options: Partial<Omit<GatewayOptions, "url">> = {}): Listener {
    const client = new Listener(endpoint, { token: this.token, ...options })
    this.clients.push(client)
    return client
  }

  /** A gateway client that has READY. The usual intents, unless told otherwise. */
  async listen(endpoint: Endpoint, options: Partial<Omit<GatewayOptions, "url">> = {}): Promise<Listener> {
    const client = this.gateway(endpoint, options)
    await client.connect()
    return client
  }
}

/** What a new connection of somebody's is told first. */
export async function readyOf(person: Person, endpoint: Endpoint): Promise<EventData<"READY">> {
  const client = person.gateway(endpoint)
  let ready: EventData<"READY"> | undefined
  client.on("ready", data => {
    ready = data
  })
  await client.connect()
  client.close()
  return ready!
}
