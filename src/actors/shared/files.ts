import { deleteFiles, deleteUploads } from "../../contract/core/jobs.ts"
import type { JobRequest } from "../../contract/core/registry.ts"
import type { MessageState } from "../../domain/messages/messages.ts"
import type { Readonlied } from "../../domain/core/readonlied.ts"

/**
 * The job that deletes a file that was discarded in the same turn. Were it lost, a sweep would come
 * to it.
 */
export const discarded = (key: string): JobRequest => deleteFiles.at({ keys: [key] }, { key: `files:${key}` })

/**
 * The job that looks at the files of messages that are deleted in the same turn: others may show
 * them, too. Were it lost, a sweep would do it.
 */
export function filesLeft(...messages: readonly Readonlied<MessageState>[]): JobRequest[] {
  const files = [...new Set(messages.flatMap(({ attachments }) => (attachments ?? []).map(({ file }) => file)))]
  return files.length === 0 ? [] : [deleteUploads.at({ files }, { key: `uploads:${messages[0]!.id}` })]
}
