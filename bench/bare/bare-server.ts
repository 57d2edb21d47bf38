import { fork } from "node:child_process"
import { once } from "node:events"

export interface BareServer {
  pid: number
  port: number
  stop(): Promise<void>
}

const files = {
  publish: new URL("./publish.ts", import.meta.url),
  posts: new URL("./posts.ts", import.meta.url),
  lone: new URL("./lone.ts", import.meta.url),
  gateway: new URL("./gateway.ts", import.meta.url),
  heartbeats: new URL("./heartbeats.ts", import.meta.url),
  logins: new URL("./logins.ts", import.meta.url),
  me: new URL("./me.ts", import.meta.url),
  history: new URL("./history.ts", import.meta.url),
  pictures: new URL("./pictures.ts", import.meta.url),
  files: new URL("./files.ts", import.meta.url),
}
export type BareName = keyof typeof files

/** Starts a file of this folder in a process of its own. */
export const startBareServer = (name: BareName, args: string[], environment: Record<string, string>) =>
  startServerFile(files[name], args, environment)

/** Starts a file that tells its port (`serve.ts`) in a process of its own. */
export async function startServerFile(
  file: URL,
  args: string[],
  environment: Record<string, string>,
): Promise<BareServer> {
  const child = fork(file, args, {
    env: { ...process.env, NODE_ENV: "production", ...environment },
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  })
  const ended = once(child, "exit")
  const told = (await Promise.race([once(child, "message"), ended])) as [{ port: number } | number | null]
  const [first] = told
  if (first === null || typeof first === "number") throw new Error(`the bare server ended with ${first}`)
  return {
    pid: child.pid!,
    port: first.port,
    async stop() {
      child.kill("SIGKILL")
      await ended
    },
  }
}
