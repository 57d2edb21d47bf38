/**
 * On Node 24 uWebSockets.js sends a string as it lies in V8's memory: one whose characters are all
 * below U+0100 goes out as Latin-1, so that clients take `é` for garbage, and a WebSocket ends with
 * an invalid frame. Bytes it sends as they are. On Node 20 and 22 it encodes strings itself, which
 * saves a copy. This can go when tests/process/image.test.ts passes without it.
 */
const encodesItself = Number(process.versions.modules) < 137

/** A text, or bytes, as uWebSockets.js may be given it. */
export const wireText: (content: string | Uint8Array) => string | Uint8Array = encodesItself
  ? content => content
  : content => (typeof content === "string" ? Buffer.from(content) : content)
