import { constants, inflateRawSync } from "node:zlib"

/** No frame holds as much. */
const maxOutputLength = 64 * 1024 * 1024

/** A piece of a zlib stream that ends in a sync flush and refers to nothing before itself. */
export const inflatePiece = (piece: Uint8Array): Uint8Array =>
  inflateRawSync(piece, { finishFlush: constants.Z_SYNC_FLUSH, maxOutputLength })
