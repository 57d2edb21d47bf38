import type { Snowflake } from "../../../contract/core/fields.ts"
import type { ImportedItem, ItemKind } from "../../../storage/imports.ts"
import type { Names } from "./records.ts"

/** A channel or a conversation, as messages come into it. */
export interface Target {
  readonly id: Snowflake
  readonly server: Snowflake | null
  readonly shard: number
  pins: number
}

/** What the export's things are called here, as far as they are there. Messages are too many to be among them. */
export class ImportState {
  readonly users = new Map<string, Snowflake>()
  /** Accounts that speak, and are nobody's to have: their messages bear their names. */
  readonly bots = new Map<string, string>()
  readonly servers = new Map<string, Snowflake>()
  readonly roles = new Map<string, Snowflake>()
  readonly categories = new Map<string, Snowflake>()
  readonly channels = new Map<string, Target>()
  readonly hooks = new Map<string, Snowflake>()
  /** By name. */
  readonly emojis = new Map<string, Snowflake>()
  /** Emoji by kind, as each server has a number of them. */
  readonly emojiCounts = new Map<string, number>()

  /** By the export's id; what comes with the outline is in `channels`. */
  readonly knownChannels = new Map<string, Snowflake>()
  /** Who owns a server, by the export's id of it. */
  readonly owners = new Map<string, Snowflake>()

  #mapOf(kind: Exclude<ItemKind, "emoji" | "message">): Map<string, Snowflake> {
    const maps = {
      server: this.servers,
      role: this.roles,
      category: this.categories,
      webhook: this.hooks,
      channel: this.knownChannels,
      direct: this.knownChannels,
    }
    return maps[kind]
  }

  /** What is there by now. Messages are no part of it. */
  learn(items: readonly ImportedItem[]): void {
    for (const { kind, foreign_id, own_id } of items) {
      if (kind !== "emoji" && kind !== "message") this.#mapOf(kind).set(foreign_id, own_id)
      else if (kind === "emoji") {
        const cut = foreign_id.lastIndexOf("/")
        this.emojis.set(foreign_id.slice(cut + 1), own_id)
        const kindOfServer = foreign_id.slice(0, cut)
        this.emojiCounts.set(kindOfServer, (this.emojiCounts.get(kindOfServer) ?? 0) + 1)
      }
    }
  }

  readonly names: Names = {
    user: id => this.users.get(id),
    channel: id => this.channels.get(id)?.id,
    role: id => this.roles.get(id),
    emoji: name => this.emojis.get(name),
  }
}

/** A role's key: the ids of two servers may be the same, as names are. */
export const roleKey = (server: string, role: string): string => (/^\d{15,}$/.test(role) ? role : `${server}/${role}`)
