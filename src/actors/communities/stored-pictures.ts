import type { Snowflake } from "../../contract/core/fields.ts"
import type { FileState } from "../../domain/core/file-types.ts"
import type { ServerState } from "../../domain/communities/servers.ts"
import { secondsAt } from "../../std/clock.ts"
import { serverFile } from "../../storage/core/blobs.ts"
import { renewPicture, type StoredPicture } from "../../storage/communities/stored-pictures.ts"
import { discardFile, useFile } from "../../storage/messages/files.ts"
import type { ActorKind } from "../../runtime/actor.ts"
import { discarded } from "../shared/files.ts"
import { allEmojis, emojiInFile } from "./emojis.ts"
import { iconInFile, serverIcon } from "./icons.ts"
import { allStickerPacks, stickerInFile } from "./stickers.ts"

/** Pictures of a server that a job has encoded again, among its home's commands. */
export interface StoredPictureCommands {
  /** Puts a picture in the place of what was uploaded; false: that is not there any longer. */
  renewPicture(input: { kind: StoredPicture["kind"]; id: Snowflake; from: string; file: FileState }): {
    renewed: boolean
  }
}

const needs = { icon: serverIcon, emoji: allEmojis, sticker: allStickerPacks }
const changes = { icon: iconInFile, emoji: emojiInFile, sticker: stickerInFile }

export const storedPictureCommands: ActorKind<ServerState, ServerState, StoredPictureCommands>["commands"] = {
  renewPicture: {
    needs: ({ kind }) => [needs[kind]],
    turn({ state: server, now }, { kind, id, from, file }) {
      const apply = changes[kind](server, id, from, file)
      if (!apply) return { reply: { renewed: false } }
      const before = serverFile(server.id, from)
      return {
        apply,
        write: [
          renewPicture({ ...file, kind, id }),
          useFile({ key: serverFile(server.id, file.file) }),
          discardFile({ key: before, since: secondsAt(now) }),
        ],
        publish: [discarded(before)],
        reply: { renewed: true },
      }
    },
  },
}
