/** The page about the flame graphs: the widest frames of each, with what is known about them. */
import { caption } from "../report.ts"
import type { About } from "../report.ts"
import type { Wide } from "./profile.ts"

export const widestShown = 5

export interface Flame {
  readonly operation: string
  readonly title: string
  readonly samples: number
  readonly widest: readonly Wide[]
}

/** By name and file. */
const sentences: Readonly<Record<string, string>> = {
  "(program)":
    "What runs outside of JavaScript: system calls that uWebSockets.js makes (`send`, `recv`, `epoll_wait`), its parsing of HTTP and frames, and libuv's own work.",
  "(garbage collector)": "V8 frees short-lived objects: rows, texts and promises of each request.",
  "answer src/http/server/server.ts":
    "A request from its head to its answer: who asks, what they may ask, the body checked against its schema, the handler; what the handler does before its first wait is in it.",
  "serve src/http/server/server.ts":
    "A request as it comes from uWebSockets.js: what of `answer` runs before its body is there, and who asks is the most of it.",
  "#perform src/runtime/router.ts":
    "A command on its way to its actor, which here is in the same process; what the actor does before its first wait is in it.",
  "#turn src/runtime/host.ts":
    "A command in its actor: facts are looked up, the rules decide, rows and events are made, the state changes.",
  "turn src/actors/messages/messages.ts":
    "The rules for a new message: permissions, slow mode, auto-moderation, the nonce; and its JSON, written once for all.",
  "#read src/cluster/worker-streams.ts":
    "The worker reads its log and its inbox from Redis: answers to other workers' commands, commands for the actors here, and events to deliver.",
  "#commit src/runtime/commit-queue.ts":
    "A batch of turns becomes one statement for PostgreSQL; its replies and events follow.",
  "execute node_modules/postgres/src/connection.js":
    "postgres.js builds a statement and its parameters and puts them on the wire.",
  "handle node_modules/postgres/src/connection.js": "postgres.js takes a row or an end from PostgreSQL's answer apart.",
  writeUtf8String: "The system call by which what gathered for Redis in a turn is written at once.",
  "doWrite node:internal/streams/writable": "Node's stream hands what gathered for Redis in a turn to one system call.",
  "onStreamRead node:internal/stream_base_commons": "Bytes from Redis or PostgreSQL arrive and are parsed.",
  "emit node:events":
    "Node calls those who listen: bytes from Redis, PostgreSQL and the workers of this host come this way, and what answers them begins here.",
  writeBuffer: "The system call by which a statement goes to PostgreSQL, or a frame to another worker of this host.",
  end: "uWebSockets.js writes the body of an answer behind its head, into what `cork` gathers; a large one goes to the system call from here.",
  collect:
    "uWebSockets.js gathers head and body of an answer (the code says `cork`; both names are one function there) and writes them with one system call.",
  cork: "uWebSockets.js gathers frames for one socket, READY and those that follow it, and writes them with one system call.",
  "#run src/std/in-step.ts":
    "The worker's periodic work, all of it in common steps: renewals, looks at what is due, sweeps.",
  "admitFreely src/cluster/admission.ts":
    "The token is taken apart, its digest compared, and the session found in the worker's memory; with limits on, another function does that and counts the request, too.",
  "sendReply src/http/server/server.ts": "The answer is written as JSON and handed to uWebSockets.js.",
  "kept src/cluster/tokens.ts":
    "The session that the worker keeps: the digest of the token is compared with what is known of it.",
  "find src/cluster/kept-sessions.ts":
    "The session is looked up in the worker's memory, and whether the worker may still rely on it.",
  "touch src/cluster/tokens.ts":
    "Whether the time has come to write when the session was last used: once a minute at most.",
  "#answer src/http/server/exchange.ts":
    "An answer is handed to uWebSockets.js: status, headers and body within one `cork`.",
  "(anonymous) src/http/server/exchange.ts": "Status, headers and body are written within the `cork` of the answer.",
  "#begin src/gateway/sessions/identify.ts":
    "A session begins: memberships from the batch that all who come at once share, its servers held, its record written, READY made.",
  "#closed src/gateway/gateway.ts":
    "Connections of the round before end, which is the benchmark's doing: their sessions are kept to be resumed.",
  "execute node_modules/ioredis/built/Script.js":
    "ioredis calls a script of Redis: the record and the count of connections, for up to 64 sessions at once.",
  "sendCommand node_modules/ioredis/built/Redis.js":
    "ioredis notes a command that waits for its answer and encodes it.",
  "#subscribed src/gateway/fan-out/subscriptions.ts":
    "The session is subscribed to a topic for each of its ten servers, by what it may see there.",
  "identify src/gateway/sessions/identify.ts": "IDENTIFY waits for its place in the queue, and its token is looked up.",
  "#upgrade src/gateway/gateway.ts":
    "The connection is let in: limits by address, what is kept of it in memory, the WebSocket handshake.",
  "pageOf src/views/message-views.ts": "The JSON of fifty messages is joined to a page, as far as it fits.",
  "headOf src/domain/messages/message-text.ts":
    "A message is written as JSON, in a third of the time that `JSON.stringify` of the whole takes.",
}

export function pageOf(about: About, flames: readonly Flame[]): { text: string; unexplained: string[] } {
  const unexplained: string[] = []
  const percent = (share: number) => `${(100 * share).toFixed(1)} %`
  const sections = flames.map(({ operation, title, widest }) => {
    const rows = widest.map(({ name, file, total, self }) => {
      const key = file === "" ? name : `${name} ${file}`
      const sentence = sentences[key]
      if (sentence === undefined) unexplained.push(`${operation}: ${key}`)
      return `| \`${key}\` | ${percent(total)} | ${percent(self)} | ${sentence ?? ""} |`
    })
    return [
      `## ${title}`,
      "",
      `![${title}](${operation}.svg)`,
      "",
      "| Frame | with what it calls | itself | |",
      "|---|---|---|---|",
      ...rows,
    ].join("\n")
  })
  const text = `# Flame graphs

Where the web workers' time goes while they are saturated, as V8's sampling profiler sees it. \`npm run bench -- flames --write\` makes the pictures and this page.

${caption(about)
  .replace("\n", "\\\n")
  .replace(/; medians of .*$/, "")}

- A frame is as wide as its samples and those of all that it called; callers are above. A frame that spends four fifths of its time in one callee is left out of the tables, as the callee says
  more, and so is the event loop. Time in which a worker waited is not in the pictures.
- \`(program)\` is what runs outside of JavaScript: uWebSockets.js and its \`send\`, libuv. V8 counts most of it as idle; here it is the CPU of the thread minus all other samples. Where
  JavaScript calls into native code (\`publish\`, \`writeBuffer\`), it is that function's instead.
- The profiler itself takes part of the time. Costs are measured without it ([benchmarks](../../../bench/README.md)).

${sections.join("\n\n")}
`
  return { text, unexplained }
}
