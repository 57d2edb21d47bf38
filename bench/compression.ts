/**
 * `npm run bench -- compression`: what compressed frames cost per delivery and per socket,
 * compressed once for everybody and by a deflater per socket, beside frames that are not
 * compressed.
 */
import { fork } from "node:child_process"
import { readFileSync } from "node:fs"
import { loadavg } from "node:os"
import { join } from "node:path"
import { writeFile } from "node:fs/promises"
import { parseArgs } from "node:util"
import { NodeWebSocket } from "./load/node-websocket.ts"
import { randomFrom } from "../tests/chaos/random.ts"
import type { Order, Report, Way } from "./bare/deflaters.ts"
import { commit, machine } from "./machine.ts"
import { figure, type Figure } from "./statistics.ts"
import { pause } from "./trials.ts"

/**
 * How many messages of a run go to all sockets; a deflater per socket is slow enough to be measured
 * with few.
 */
const ways: readonly { way: Way; messages: number }[] = [
  { way: "plain", messages: 300 },
  { way: "shared", messages: 300 },
  { way: "own", messages: 20 },
  { way: "own, small", messages: 20 },
]
/** Bytes of a whole frame, about. */
const sizes = [400, 2_000]

const vocabulary =
  "the a of to and in is it you that river was for on are with as I stone they be at one have this from or had by hot but some what there we can out other were all your when up use word how said an each she which do their time if will way about many then them would write like so these her long make thing see cloud two has look more day could go come did my sound no most number who over know water than call first people may down side been now find any new work part take get place made live where after back little only round man year came show every good me give our under name very through just form much great think say help low line before turn cause same mean differ move right boy old too does tell sentence set three want air well also play small end put home read hand port large spell add even land here must big high such follow act why ask men change went light kind off need house picture try us again animal point mother world near build self earth father".split(
    " ",
  )

/** A message as it is told: ids and times that differ, words as people write them. */
function message(bytes: number, n: number): string {
  const id = (k: number) => String(382_700_000_000_000_000n + BigInt(n * 4096 + k * 1_000_003))
  const d = {
    id: id(0),
    channel_id: "382693313226141700",
    server_id: "382693313226141696",
    guild_id: "382693313226141696",
    author_id: id(7),
    author_username: `somebody_${n % 50}`,
    author_avatar_url: `/api/v1/avatars/users/${id(7)}`,
    content: "",
    created_at: 1_795_000_000 + n,
    edited_at: null,
    reply_to_id: null,
    attachments: [],
    embeds: [],
    pinned: false,
    nonce: `n${n}`,
  }
  const left = bytes - 60 - JSON.stringify(d).length
  const random = randomFrom(n, "words")
  while (d.content.length < left) d.content += `${random.pick(vocabulary)} `
  return JSON.stringify(d)
}

interface Measured {
  readonly cpu: number
  readonly bytes: number
  readonly kibPerSocket: number
}

const residentKib = (pid: number) =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "latin1"))?.[1] ?? NaN)

async function measure(way: Way, messages: number, size: number, count: number): Promise<Measured> {
  const child = fork(new URL("./bare/deflaters.ts", import.meta.url), [way])
  const reports: Report[] = []
  let wake = () => {}
  child.on("message", (report: Report) => {
    reports.push(report)
    wake()
  })
  child.once("exit", () => wake())
  const told = async <R extends Report>(is: (report: Report) => report is R): Promise<R> => {
    for (;;) {
      const report = reports.shift()
      if (report && is(report)) return report
      if (!report && child.exitCode !== null) throw new Error("the server has ended")
      if (!report) await new Promise<void>(resolve => (wake = resolve))
    }
  }
  const sockets: NodeWebSocket[] = []
  try {
    const { port } = await told((report): report is { port: number } => "port" in report)
    const before = residentKib(child.pid!)
    const all = told((report): report is { sockets: number } => "sockets" in report && report.sockets === count)
    for (let i = 0; i < count; i++) {
      const socket = new NodeWebSocket(`ws://127.0.0.1:${port}/gateway`, undefined, { textAsBytes: true })
      // oxlint-disable-next-line unicorn/prefer-add-event-listener
      socket.onmessage = () => {}
      sockets.push(socket)
    }
    await all
    const run = (amount: number, first: number) => {
      const order: Order = { messages: Array.from({ length: amount }, (_, i) => message(size, first + i)) }
      child.send(order)
      return told((report): report is { cpuMicroseconds: number; bytes: number } => "bytes" in report)
    }
    // Code is compiled, and windows are filled.
    await run(Math.ceil(messages / 2), 0)
    const { cpuMicroseconds, bytes } = await run(messages, 10_000)
    await pause(0.5)
    const deliveries = messages * count
    const kibPerSocket = (residentKib(child.pid!) - before) / count
    return { cpu: cpuMicroseconds / deliveries, bytes: bytes / deliveries, kibPerSocket }
  } finally {
    for (const socket of sockets) socket.terminate()
    child.kill("SIGKILL")
  }
}

export async function benchCompression(args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: { runs: { type: "string", default: "3" }, sessions: { type: "string", default: "500" } },
  })
  const [runs, sessions] = [Number(values.runs), Number(values.sessions)]
  const loadBefore = loadavg()[0]!
  const results: { size: number; way: Way; cpu: Figure; bytes: Figure; kibPerSocket: Figure }[] = []
  for (const size of sizes) {
    const measured = new Map<Way, Measured[]>(ways.map(({ way }) => [way, []]))
    for (let run = 0; run < runs; run++)
      for (const { way, messages } of run % 2 === 0 ? ways : ways.toReversed()) {
        process.stderr.write(`${size} bytes, run ${run + 1}: ${way}\n`)
        measured.get(way)!.push(await measure(way, messages, size, sessions))
      }
    for (const [way, list] of measured)
      results.push({
        size,
        way,
        cpu: figure(list.map(({ cpu }) => cpu)),
        bytes: figure(list.map(({ bytes }) => bytes)),
        kibPerSocket: figure(list.map(({ kibPerSocket }) => kibPerSocket)),
      })
  }
  const name = `${new Date().toISOString().slice(0, 10)}-compression.json`
  const file = join(import.meta.dirname, "results", name)
  const facts = { commit: commit(), machine: machine(loadBefore), runs, sessions, results }
  await writeFile(file, `${JSON.stringify(facts, undefined, 2)}\n`)
  const lines = results.map(
    ({ size, way, cpu, bytes, kibPerSocket }) =>
      `| ${size} | ${way} | ${cpu.median.toFixed(2)} µs | ${bytes.median.toFixed(0)} | ${kibPerSocket.median.toFixed(1)} KiB |`,
  )
  process.stdout.write(
    `\n${sessions} sockets, medians of ${runs}\n\n| frame | compressed | CPU per delivery | bytes per delivery | memory per socket |\n|---|---|---|---|---|\n${lines.join("\n")}\n\nkept as bench/results/${name}\n`,
  )
}
