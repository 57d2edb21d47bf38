import { fail } from "../../contract/core/errors.ts"
import type { Snowflake } from "../../contract/core/fields.ts"
import { limits } from "../../contract/core/limits.ts"
import { guildStickersUpdate, type Sticker, type StickerPack } from "../../contract/communities/stickers.ts"
import { changesOf } from "../../domain/communities/audit.ts"
import { membersOf } from "../../domain/core/audience.ts"
import { secondsAt } from "../../std/clock.ts"
import {
  packObject,
  stickerObject,
  type StickerFile,
  type StickerPackState,
  type StickerState,
} from "../../domain/communities/stickers.ts"
import type { ServerState } from "../../domain/communities/servers.ts"
import type { FileState } from "../../domain/core/file-types.ts"
import { serverFile } from "../../storage/core/blobs.ts"
import { discardFile, useFile } from "../../storage/messages/files.ts"
import {
  countStickerUse,
  deleteSticker,
  deleteStickerPack,
  insertSticker,
  insertStickerPack,
} from "../../storage/communities/stickers.ts"
import { requireMember } from "../shared/access.ts"
import { audit, type AuditContext } from "../shared/audit.ts"
import { requireEmojiManager } from "./emojis.ts"
import { discarded } from "../shared/files.ts"
import { member } from "../shared/member-facts.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import type { ActorKind } from "../../runtime/actor.ts"
import { defineFact } from "../shared/facts.ts"

/**
 * The stickers of a server, among its home's commands. They keep:
 *   STICK1  No pack is empty or above its limit; a new pack is created only when all are full.
 * EMOJI2 of emojis.ts holds here, too.
 */
export interface StickerCommands {
  listStickers(input: { user: Snowflake }): StickerPack[]
  createSticker(
    input: AuditContext & { name: string; tags: readonly string[]; picture: StickerFile; file: FileState },
  ): Sticker
  deleteSticker(input: AuditContext & { sticker_id: Snowflake }): { deleted: true }
  countStickerUse(input: { user: Snowflake; sticker_id: Snowflake }): { counted: true }
}

type Server = Readonlied<ServerState>
type Pack = Readonly<StickerPackState>

const stickerFacts = defineFact<ServerState, readonly StickerPackState[]>({
  keep: 1,
  load: async (storage, server) => new Map([[allStickerPacksKey, await storage.stickers.packs(server)]]),
})
export const allStickerPacksKey = "all"
export const allStickerPacks = stickerFacts.need(allStickerPacksKey)

export const stickerCommands: ActorKind<ServerState, ServerState, StickerCommands>["commands"] = {
  listStickers: {
    needs: ({ user }) => [member(user), allStickerPacks],
    turn({ state: server }, { user }) {
      requireMember(server, user)
      return { reply: packsOf(server).map(packObject) }
    },
  },

  createSticker: {
    needs: ({ user }) => [member(user), allStickerPacks],
    turn(context, { user, reason, name, tags, picture, file }) {
      const { state: server, now, newId } = context
      requireEmojiManager(server, user)
      const packs = packsOf(server)
      const open = packs.find(({ stickers }) => stickers.length < limits.stickersPerPack)
      if (!open && packs.length >= limits.packsPerServer) throw fail("sticker_limit")
      const pack: Pack = open ?? {
        id: newId(),
        server_id: server.id,
        name: newPackName(packs),
        description: null,
        stickers: [],
      }
      const created: StickerState = {
        id: newId(),
        pack_id: pack.id,
        server_id: server.id,
        name,
        format: picture.format,
        tags,
        related_emoji: null,
        ...file,
        width: picture.width,
        height: picture.height,
        created_by: user,
        created_at: secondsAt(now),
      }
      const filled = { ...pack, stickers: [...pack.stickers, created] }
      const left = open ? packs.map(one => (one === open ? filled : one)) : [...packs, filled] // STICK1
      audit(
        { ...context, user, reason },
        "STICKER_CREATE",
        { type: "sticker", id: created.id, name },
        changesOf(null, created, ["name", "format", "tags", "pack_id"]),
      )
      return {
        apply: draft => {
          stickerFacts.of(draft).set(allStickerPacksKey, left)
        },
        write: [
          ...(open ? [] : [insertStickerPack(pack)]),
          insertSticker(created),
          useFile({ key: serverFile(server.id, file.file) }),
        ],
        publish: [stickersUpdated(filled)],
        reply: stickerObject(created),
      }
    },
  },

  deleteSticker: {
    needs: ({ user }) => [member(user), allStickerPacks],
    turn(context, { user, reason, sticker_id }) {
      const { state: server, now } = context
      requireEmojiManager(server, user)
      const { pack, sticker } = requireSticker(server, sticker_id)
      const kept = pack.stickers.filter(({ id }) => id !== sticker_id)
      const thinned: Pack = { ...pack, stickers: kept }
      const left = packsOf(server).flatMap(one => (one !== pack ? [one] : kept.length > 0 ? [thinned] : [])) // STICK1
      const key = serverFile(server.id, sticker.file)
      audit(
        { ...context, user, reason },
        "STICKER_DELETE",
        { type: "sticker", id: sticker_id, name: sticker.name },
        changesOf(sticker, null, ["name", "format", "tags", "pack_id"]),
      )
      return {
        apply: draft => {
          stickerFacts.of(draft).set(allStickerPacksKey, left)
        },
        write: [
          deleteSticker({ id: sticker_id }),
          ...(kept.length > 0 ? [] : [deleteStickerPack({ id: pack.id })]),
          discardFile({ key, since: secondsAt(now) }), // EMOJI2
        ],
        publish: [stickersUpdated(thinned), discarded(key)],
        reply: { deleted: true },
      }
    },
  },

  countStickerUse: {
    needs: ({ user }) => [member(user), allStickerPacks],
    turn({ state: server }, { user, sticker_id }) {
      requireMember(server, user)
      requireSticker(server, sticker_id)
      return { write: [countStickerUse({ id: sticker_id })], reply: { counted: true } }
    },
  },
}

const packsOf = (server: Server): readonly Pack[] => stickerFacts.of(server).get(allStickerPacksKey) ?? []

/** A number that no other bears. */
function newPackName(packs: readonly Pack[]): string {
  const taken = new Set(packs.map(({ name }) => name))
  for (let number = 1; ; number++) if (!taken.has(`Stickers ${number}`)) return `Stickers ${number}`
}

function requireSticker(server: Server, id: Snowflake): { pack: Pack; sticker: Readonly<StickerState> } {
  for (const pack of packsOf(server)) {
    const sticker = pack.stickers.find(one => one.id === id)
    if (sticker) return { pack, sticker }
  }
  throw fail("sticker_not_found")
}

/** The one pack that changed: all of them are too many to send to everybody. */
const stickersUpdated = (pack: Pack) =>
  guildStickersUpdate.to(membersOf(pack.server_id), {
    guild_id: pack.server_id,
    server_id: pack.server_id,
    sticker_packs: [packObject(pack)],
  })

/** What puts a sticker into another file, if it is in the first one. */
export function stickerInFile(server: Server, id: Snowflake, from: string, file: FileState) {
  const packs = packsOf(server)
  if (!packs.some(({ stickers }) => stickers.some(one => one.id === id && one.file === from))) return undefined
  const left = packs.map(pack => ({
    ...pack,
    stickers: pack.stickers.map(one => (one.id === id ? { ...one, ...file } : one)),
  }))
  return (draft: ServerState) => {
    stickerFacts.of(draft).set(allStickerPacksKey, left)
  }
}
