import { createHash } from "node:crypto"

/**
 * SHA-256 of an interface description. The servers are left out: they depend on the address that
 * the server has.
 */
export const digestOf = (document: object): string =>
  createHash("sha256")
    .update(JSON.stringify({ ...document, servers: undefined }))
    .digest("hex")
