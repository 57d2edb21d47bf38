import { limits } from "./limits.ts"

/** What becomes of an avatar or an icon, as its routes say. */
export const pictureSummary = `The type is read from the content: JPEG, PNG, GIF or WebP. The image is re-encoded in that type to fit into ${limits.avatarSideKept} × ${limits.avatarSideKept} pixels: metadata is removed, the orientation is applied, GIF and WebP keep their frames. If no job worker does so in time, the response is 503`
