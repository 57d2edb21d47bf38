import { isDeepStrictEqual } from "node:util"
import type { ReceivedEvent } from "../../client/gateway.ts"
import type { ReadingClient } from "../../client/reads.ts"
import { serverOf, Store } from "../../client/store.ts"
import type { ClientState } from "../../client/state.ts"
import type { EventName } from "../../src/contract/contract.ts"
import type { Snowflake } from "../../src/contract/core/fields.ts"
import { until } from "./until.ts"

/** A store that opens everything, with all that it was told. */
export class ModelClient {
  readonly log: ReceivedEvent[] = []
  readonly #store: Store
  /** Events of this name do not reach it. */
  readonly #deafTo: EventName | undefined
  #failure: unknown

  constructor(client: () => ReadingClient, deafTo?: EventName) {
    const onError = (error: unknown) => {
      this.#failure = error
    }
    this.#store = new Store({ client, everything: true, unreadEveryMs: 0, presencesWithinMs: 0, onError })
    this.#deafTo = deafTo
  }

  get state(): ClientState {
    return this.#store.state
  }

  receive(event: ReceivedEvent): void {
    if (event.name === this.#deafTo) return
    this.log.push(event)
    this.#store.receive(event)
  }

  /** It has read whatever it had to. */
  async caughtUp(): Promise<void> {
    await until("a client has read what it had to", () => !this.#store.isReading, { timeoutMs: 60_000 })
    if (this.#failure !== undefined) throw new Error("a client could not read", { cause: this.#failure })
  }

  /** The latest events, as text; of one server and of the session only, if it is named. */
  tail(server?: Snowflake, count = 40): string {
    return this.log
      .filter(event => server === undefined || (serverOf(event) ?? server) === server)
      .slice(-count)
      .map(({ s, name, data }) => `  ${s} ${name} ${JSON.stringify(data).slice(0, 160)}`)
      .join("\n")
  }
}

const sorted = <K extends string, V, W>(map: ReadonlyMap<K, V>, shown: (value: V, key: K) => W): Record<string, W> =>
  Object.fromEntries([...map].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([key, value]) => [key, shown(value, key)]))

/** Where two plain values differ, as text. */
export function differences(told: unknown, read: unknown, path = ""): string[] {
  if (isDeepStrictEqual(told, read)) return []
  if (!isRecord(told) || !isRecord(read)) {
    const shown = (value: unknown) => (value === undefined ? "nothing" : JSON.stringify(value).slice(0, 200))
    return [`${path}: told ${shown(told)}, read ${shown(read)}`]
  }
  const keys = new Set([...Object.keys(told), ...Object.keys(read)])
  return [...keys].flatMap(key => differences(told[key], read[key], `${path}/${key}`))
}
const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null

/** Two states as plain values: equal if the client knows what its reads show. */
export function compared(told: ClientState, read: ClientState): { told: unknown; read: unknown } {
  const shown = (state: ClientState, other: ClientState) => ({
    user: state.user,
    relationships: sorted(state.relationships, known => known),
    notifications: sorted(state.notifications, known => known),
    unread: sorted(state.unread, known => known),
    names: Object.fromEntries(
      [...read.servers, ...told.names].map(
        ([id]) => [id, state === told ? told.names.get(id) : read.servers.get(id)?.facts.name] as const,
      ),
    ),
    // The other user of a DM may be called otherwise by now: that is told to friends and in servers.
    directs: sorted(state.directs, ({ recipient_id, history }, id) => {
      const floor = other.directs.get(id)?.history?.floor ?? 0n
      const messages = new Map([...(history?.messages ?? [])].filter(([message]) => BigInt(message) >= floor))
      return {
        recipient_id,
        messages: sorted(messages, ({ author_id, content, edited_at }) => ({ author_id, content, edited_at })),
      }
    }),
    servers: sorted(state.servers, (server, id) => {
      if (!server) return "not read"
      const { facts, channels, roles, members, bans, emojis, packs, histories, voice } = server
      const floorOf = (channel: Snowflake) => other.servers.get(id)?.histories.get(channel)?.floor ?? 0n
      return {
        facts,
        channels: sorted(channels, channel => channel),
        roles: sorted(roles, role => role),
        members: sorted(members, member => ({ ...member, roles: member.roles.toSorted() })),
        bans: bans && [...bans].toSorted(),
        emojis,
        packs,
        voice: sorted(voice, call => call),
        // Who has read a message, the user too, is asked for where it is shown.
        messages: sorted(histories, ({ messages }, channel) =>
          sorted(new Map([...messages].filter(([message]) => BigInt(message) >= floorOf(channel))), message => ({
            ...message,
            read: false,
            read_by: [],
            read_count: 0,
            delivery_count: 0,
            status: "sent",
            // What the user has voted for no event says either.
            poll_results: message.poll_results && { ...message.poll_results, user_voted: false, user_votes: [] },
          })),
        ),
        outline: outlineOf(state, told, id),
      }
    }),
  })
  return { told: shown(told, read), read: shown(read, told) }
}

/** What the client was told by GUILD_CREATE and later events; beside it what it should have been told. */
function outlineOf(state: ClientState, told: ClientState, id: Snowflake): unknown {
  const outline = told.outlines.get(id)
  if (!outline) return undefined
  const { channels, roles } = state === told ? outline : state.servers.get(id)!
  return {
    channels: sorted(channels, ({ id: channel, name, type, channel_type, position }) => ({
      id: channel,
      name,
      type,
      channel_type,
      position,
    })),
    roles: sorted(roles, ({ id: role, name, color, hoist, position }) => ({ id: role, name, color, hoist, position })),
  }
}
