import { avatarPath } from "../../contract/accounts/users.ts"
import type { UserState } from "../../domain/accounts/user-state.ts"
import type { FileState } from "../../domain/core/file-types.ts"
import { secondsAt } from "../../std/clock.ts"
import { deleteAvatar, putAvatar } from "../../storage/accounts/avatars.ts"
import { userFiles } from "../../storage/core/blobs.ts"
import { discardFile } from "../../storage/messages/files.ts"
import type { ActorKind } from "../../runtime/actor.ts"
import { defineFact } from "../shared/facts.ts"
import { discarded } from "../shared/files.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"
import { looksChanged } from "./account.ts"

/**
 * A user's own picture, and a bot's, which its owner chooses, among the commands of their home. As
 * with icons, a file is there before its row, and goes after it. Its address is always the same: who
 * is told that it changed fetches it again.
 */
export interface AvatarCommands {
  /** `former`: the key of the file before. Who asks deletes it; were that lost, a sweep would come to it. */
  putAvatar(input: { file: FileState }): { avatar_url: string; former?: string }
  deleteAvatar(input: object): { deleted: true }
}

type User = Readonlied<UserState>

const avatarFacts = defineFact<UserState, FileState>({
  keep: 1,
  async load(storage, user) {
    const avatar = await storage.avatars.find(user)
    return new Map(avatar && [[avatarKey, avatar]])
  },
})
const avatarKey = "avatar"
export const userAvatar = avatarFacts.need(avatarKey)

export const avatarCommands: ActorKind<UserState, UserState, AvatarCommands>["commands"] = {
  putAvatar: {
    needs: () => [userAvatar],
    turn({ state: user, now, newId }, { file }) {
      const { file: name, content_type, hash, size } = file
      const before = avatarFacts.of(user).get(avatarKey)
      const former = before ? userFiles(user.id) + before.file : undefined
      return {
        apply: draft => {
          avatarFacts.of(draft).set(avatarKey, { file: name, content_type, hash, size })
        },
        write: [
          putAvatar({ ...file, user_id: user.id, key: userFiles(user.id) + name, former, since: secondsAt(now) }),
        ],
        publish: looksChanged(user, newId),
        reply: { avatar_url: avatarPath(user.id), ...(former !== undefined && { former }) },
      }
    },
  },

  deleteAvatar: {
    needs: () => [userAvatar],
    turn({ state: user, now, newId }) {
      if (!avatarFacts.of(user).get(avatarKey)) return { reply: { deleted: true } }
      const before = withoutAvatar(user, now)
      return {
        apply: before.apply,
        write: [deleteAvatar({ user_id: user.id }), ...before.write],
        publish: [...looksChanged(user, newId), ...before.publish],
        reply: { deleted: true },
      }
    },
  },
}

/** The effects of taking away the picture that a user has, but for its row: its file is discarded. */
export function withoutAvatar(user: User, now: number) {
  const before = avatarFacts.of(user).get(avatarKey)
  const key = before && userFiles(user.id) + before.file
  return {
    apply: (draft: UserState) => {
      avatarFacts.of(draft).set(avatarKey, null)
    },
    write: key ? [discardFile({ key, since: secondsAt(now) })] : [],
    publish: key ? [discarded(key)] : [],
  }
}
