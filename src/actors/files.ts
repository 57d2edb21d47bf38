import { deleteFiles } from "../contract/jobs.ts"
import type { JobRequest } from "../contract/registry.ts"

/** The job that deletes a file that was discarded in the same turn. Were it lost, a sweep would come to it. */
export const discarded = (key: string): JobRequest => deleteFiles.at({ keys: [key] }, { key: `files:${key}` })
