import { guildEmojisUpdate, type Emoji, type EmojiCounts } from "../../contract/communities/emojis.ts"
import { fail } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"
import { changesOf } from "../../domain/communities/audit.ts"
import { membersOf } from "../../domain/core/audience.ts"
import { secondsAt } from "../../std/clock.ts"
import { byName, emojiName, emojiObject, type EmojiState } from "../../domain/communities/emojis.ts"
import { holds } from "../../domain/core/permissions.ts"
import type { ServerState } from "../../domain/communities/servers.ts"
import type { FileState } from "../../domain/core/file-types.ts"
import { serverFile } from "../../storage/core/blobs.ts"
import { deleteEmoji, insertEmoji, renameEmoji } from "../../storage/communities/emojis.ts"
import { discardFile, useFile } from "../../storage/messages/files.ts"
import { requireMember } from "../shared/access.ts"
import { audit, type AuditContext } from "../shared/audit.ts"
import { discarded } from "../shared/files.ts"
import { member, memberFacts } from "../shared/member-facts.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import type { ActorKind } from "../../runtime/actor.ts"
import { defineFact } from "../shared/facts.ts"

/**
 * The emoji of a server, among its home's commands. They keep:
 *   EMOJI1  Names are unique, and the limit holds under concurrent requests.
 *   EMOJI2  A file is written before its row and deleted after it.
 */
export interface EmojiCommands {
  listEmojis(input: { user: Snowflake }): Emoji[]
  countEmojis(input: { user: Snowflake }): EmojiCounts
  getEmoji(input: { user: Snowflake; emoji_id: Snowflake }): Emoji
  /** Refuses a user who may not add or change emoji and stickers. */
  requireEmojiManager(input: { user: Snowflake }): { server_id: Snowflake }
  createEmoji(input: AuditContext & { name: string; animated: boolean; file: FileState }): Emoji
  renameEmoji(input: AuditContext & { emoji_id: Snowflake; name?: string | undefined }): Emoji
  deleteEmoji(input: AuditContext & { emoji_id: Snowflake }): { deleted: true }
}

type Server = Readonlied<ServerState>

/** The same is so of these. */
const emojiFacts = defineFact<ServerState, readonly EmojiState[]>({
  keep: 1,
  load: async (storage, server) => new Map([[allEmojisKey, await storage.emojis.ofServer(server)]]),
})
export const allEmojisKey = "all"
export const allEmojis = emojiFacts.need(allEmojisKey)

export const emojiCommands: ActorKind<ServerState, ServerState, EmojiCommands>["commands"] = {
  listEmojis: {
    needs: ({ user }) => [member(user), allEmojis],
    turn({ state: server }, { user }) {
      requireMemberOf(server, user)
      return { reply: shown(emojisOf(server)) }
    },
  },

  countEmojis: {
    needs: ({ user }) => [member(user), allEmojis],
    turn({ state: server }, { user }) {
      requireMemberOf(server, user)
      const all = emojisOf(server)
      const animated = all.filter(emoji => emoji.animated).length
      const most = limits.emojisPerServer
      return { reply: { static: all.length - animated, animated, max_static: most, max_animated: most } }
    },
  },

  getEmoji: {
    needs: ({ user }) => [member(user), allEmojis],
    turn({ state: server }, { user, emoji_id }) {
      requireMemberOf(server, user)
      return { reply: emojiObject(requireEmoji(server, emoji_id)) }
    },
  },

  requireEmojiManager: {
    needs: ({ user }) => [member(user)],
    turn({ state: server }, { user }) {
      requireEmojiManager(server, user)
      return { reply: { server_id: server.id } }
    },
  },

  createEmoji: {
    needs: ({ user }) => [member(user), allEmojis],
    turn(context, { user, reason, name: given, animated, file }) {
      const { state: server, now, newId } = context
      requireEmojiManager(server, user)
      const all = emojisOf(server)
      const name = requireFreeName(all, given)
      if (all.filter(emoji => emoji.animated === animated).length >= limits.emojisPerServer) throw fail("emoji_limit") // EMOJI1
      const created: EmojiState = {
        id: newId(),
        server_id: server.id,
        name,
        animated,
        ...file,
        created_by: user,
        created_at: now,
      }
      const left = [...all, created]
      audit(
        { ...context, user, reason },
        "EMOJI_CREATE",
        { type: "emoji", id: created.id, name },
        changesOf(null, created, ["name", "animated"]),
      )
      return {
        apply: draft => {
          emojiFacts.of(draft).set(allEmojisKey, left)
        },
        write: [insertEmoji(created), useFile({ key: serverFile(server.id, file.file) })],
        publish: [emojisUpdated(server, left)],
        reply: emojiObject(created),
      }
    },
  },

  renameEmoji: {
    needs: ({ user }) => [member(user), allEmojis],
    turn(context, { user, reason, emoji_id, name: given }) {
      const { state: server } = context
      requireEmojiManager(server, user)
      const found = requireEmoji(server, emoji_id)
      const others = emojisOf(server).filter(({ id }) => id !== emoji_id)
      const name = given === undefined ? found.name : requireFreeName(others, given)
      if (name === found.name) return { reply: emojiObject(found) }
      const renamed = { ...found, name }
      const left = [...others, renamed]
      audit(
        { ...context, user, reason },
        "EMOJI_UPDATE",
        { type: "emoji", id: emoji_id, name },
        changesOf(found, renamed, ["name"]),
      )
      return {
        apply: draft => {
          emojiFacts.of(draft).set(allEmojisKey, left)
        },
        write: [renameEmoji({ id: emoji_id, name })],
        publish: [emojisUpdated(server, left)],
        reply: emojiObject(renamed),
      }
    },
  },

  deleteEmoji: {
    needs: ({ user }) => [member(user), allEmojis],
    turn(context, { user, reason, emoji_id }) {
      const { state: server, now } = context
      requireEmojiManager(server, user)
      const found = requireEmoji(server, emoji_id)
      const left = emojisOf(server).filter(({ id }) => id !== emoji_id)
      const key = serverFile(server.id, found.file)
      audit(
        { ...context, user, reason },
        "EMOJI_DELETE",
        { type: "emoji", id: emoji_id, name: found.name },
        changesOf(found, null, ["name", "animated"]),
      )
      return {
        apply: draft => {
          emojiFacts.of(draft).set(allEmojisKey, left)
        },
        write: [
          deleteEmoji({ id: emoji_id }),
          discardFile({ key, since: secondsAt(now) }), // EMOJI2
        ],
        publish: [emojisUpdated(server, left), discarded(key)],
        reply: { deleted: true },
      }
    },
  },
}

const emojisOf = (server: Server): readonly Readonly<EmojiState>[] => emojiFacts.of(server).get(allEmojisKey) ?? []

const shown = (emojis: readonly Readonly<EmojiState>[]): Emoji[] =>
  emojis.map(emoji => emojiObject(emoji)).toSorted(byName)

const emojisUpdated = (server: Server, emojis: readonly Readonly<EmojiState>[]) =>
  guildEmojisUpdate.to(membersOf(server.id), { guild_id: server.id, server_id: server.id, emojis: shown(emojis) })

function requireMemberOf(server: Server, user: Snowflake) {
  if (!memberFacts.of(server).get(user)) throw fail("access_denied", { message: "Not a member of this server" })
  return requireMember(server, user)
}

/** Either permission will do; the refusal names the one that is meant for it. */
export function requireEmojiManager(server: Server, user: Snowflake): void {
  const caller = requireMemberOf(server, user)
  if (!holds(server, caller, "emojis.manage") && !holds(server, caller, "server.manage"))
    throw fail("permission_denied", { message: "Missing emojis.manage permission" })
}

function requireEmoji(server: Server, id: Snowflake): Readonly<EmojiState> {
  const found = emojisOf(server).find(emoji => emoji.id === id)
  if (!found) throw fail("emoji_not_found")
  return found
}

/** EMOJI1 */
function requireFreeName(others: readonly Readonly<EmojiState>[], given: string): string {
  const name = emojiName(given)
  if (name === undefined) throw fail("invalid_emoji_name")
  if (others.some(emoji => emoji.name === name)) throw fail("emoji_exists")
  return name
}

/** What puts an emoji into another file, if it is in the first one. */
export function emojiInFile(server: Server, id: Snowflake, from: string, file: FileState) {
  const all = emojisOf(server)
  if (!all.some(emoji => emoji.id === id && emoji.file === from)) return undefined
  const left = all.map(emoji => (emoji.id === id ? { ...emoji, ...file } : emoji))
  return (draft: ServerState) => {
    emojiFacts.of(draft).set(allEmojisKey, left)
  }
}
