import type { Snowflake } from "../contract/fields.ts"
import type { Audience } from "../domain/audience.ts"
import { everyoneHolds, holds } from "../domain/permissions.ts"
import type { Permission } from "../contract/permissions.ts"
import type { ServerOutline } from "../storage/servers.ts"
import type { Encoding } from "./frames.ts"
import type { Session } from "./session.ts"

/** Sessions that receive the same bytes of an audience: one topic, one publish. */
export interface ListenerClass {
  readonly topic: string
  readonly intents: number
  readonly encoding: Encoding
  count: number
  /** Monotonic milliseconds. */
  publishedAt: number
}

/** What the worker knows of a server whose members' sessions it holds; its own log keeps it current. */
export class ServerView {
  readonly outline: ServerOutline
  /** Sessions that hold this server, live or not. */
  sessions = 0
  /** Classes of live sessions, by audience key and class key. */
  readonly classes = new Map<string, Map<string, ListenerClass>>()
  /** Sessions beyond the bound of classes: served one by one. */
  readonly oddOnes = new Set<Session>()

  constructor(outline: ServerOutline) {
    this.outline = outline
  }

  get id(): Snowflake {
    return this.outline.id
  }

  /** Audiences that have the same members share a key, and so their topics. */
  audienceKey(audience: Exclude<Audience, { kind: "user" }>): string {
    if (audience.kind === "members") return everybody
    const permission = audience.kind === "holders" ? audience.permission : "channels.view"
    return everyoneHolds(this.outline, permission) ? everybody : permission
  }

  /** The audiences that a session takes by subscription; whatever else there is goes to it one by one, after a check. */
  subscribedKeys(user: Snowflake, roles: readonly Snowflake[]): string[] {
    if (everyoneHolds(this.outline, "channels.view")) return [everybody]
    return holds(this.outline, { user_id: user, roles }, "channels.view") ? [everybody, "channels.view"] : [everybody]
  }

  isSubscribed(key: string): boolean {
    return key === everybody || key === "channels.view"
  }

  /** Whether an audience of this server includes a member, as of now. */
  includes(audience: Exclude<Audience, { kind: "user" }>, user: Snowflake, roles: readonly Snowflake[]): boolean {
    const key = this.audienceKey(audience)
    return key === everybody || holds(this.outline, { user_id: user, roles }, key as Permission)
  }
}

const everybody = "*"

/** Bits of a session's intents that decide about a server's events. */
const serverIntents = 0x0fff

export const classIntents = (intents: number): number => intents & serverIntents
