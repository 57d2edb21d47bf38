/** Loads the binary that sockets need: it is there for some systems, architectures and versions of Node only. */
export const loadTransport = async (): Promise<void> => {
  await import("uWebSockets.js")
}
