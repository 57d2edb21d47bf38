/**
 * `npm run bench -- pictures`: what an uploaded picture costs until it is an avatar, beside sharp
 * alone behind uWebSockets.js.
 */
import sharp from "sharp"
import type { Bench } from "../bench.ts"
import type { Harness } from "../harness.ts"
import { cpuSince, readCpu, type Parts } from "../processes.ts"
import { microseconds, partsOf, ratio, round, type About, type Line } from "../report.ts"
import { figure } from "../statistics.ts"
import { alternate, compare, pause, scale, sum, type Comparison, type Sides } from "../trials.ts"

/** Enough that neither waits for the next one: what both do between two pictures is hidden by others. */
const inFlight = 8
const people = 32
const warmUpSeconds = 20
const restSeconds = 4

/** As cameras and phones make them, and as people draw them. */
const kinds: readonly { name: string; make: () => Promise<Buffer> }[] = [
  { name: "JPEG of 12 megapixels", make: () => scenery(4000, 3000).jpeg({ quality: 85 }).toBuffer() },
  { name: "PNG of 1 megapixel", make: () => scenery(1200, 900).png().toBuffer() },
  { name: "JPEG of 512 × 512", make: () => scenery(512, 512).jpeg({ quality: 85 }).toBuffer() },
]

/** Soft shapes: noise alone is like no picture, and takes longest. */
export const scenery = (width: number, height: number) =>
  sharp({
    create: { width, height, channels: 3, noise: { type: "gaussian", mean: 128, sigma: 60 }, background: "#000" },
  })
    .blur(4)
    .linear(4, -384)

interface PictureRun {
  readonly pictures: number
  readonly perSecond: number
  /** Microseconds per picture, user and system, beyond what an idle server takes: of all server processes, and by part. */
  readonly cpu: number
  readonly cpuByPart: Record<string, number>
}
interface PictureCase {
  readonly name: string
  readonly bytes: number
  readonly runs: Sides<PictureRun[]>
  readonly cpu: Comparison
  readonly perSecond: Comparison
}
interface PicturesResults extends About {
  pictures?: PictureCase[]
}

export const pictures: Bench<never, PicturesResults> = {
  about: "what an uploaded picture costs, beside sharp alone",
  plan: ({ runs, isQuick, say }) => ({
    sizes: { audience: 1, authors: people, idlers: 0 },
    extent: { runs },
    async measure(harness, about) {
      return { ...about, pictures: await measureAll(harness, runs, isQuick ? 2 : 6, say) }
    },
    lines: summarize,
  }),
}

async function measureAll(harness: Harness, runs: number, seconds: number, say: (what: string) => void) {
  const starling = await harness.startStarling()
  const bare = await harness.startBare("pictures", [])
  const tokens = harness.population.authors.map(({ token }) => token)
  const sides = {
    bare: { url: `http://127.0.0.1:${bare.port}/pictures`, parts: { node: [bare.pid] } as Parts },
    starling: { url: `${starling.url}/api/v1/avatars/users/@me`, parts: starling.parts as Parts },
  }
  const cases: PictureCase[] = []
  let isFirst = true
  for (const { name, make } of kinds) {
    const bytes = await make()
    let sent = 0
    const upload = async (side: keyof typeof sides): Promise<void> => {
      const headers = { Authorization: `Bearer ${tokens[sent++ % tokens.length]}` }
      const form = new FormData()
      form.append("file", new Blob([new Uint8Array(bytes)]), "picture")
      const body = side === "bare" ? new Uint8Array(bytes) : form
      const answer = await fetch(sides[side].url, { method: "POST", headers, body })
      if (!answer.ok) throw new Error(`${side}: ${answer.status} ${await answer.text()}`)
      await answer.arrayBuffer()
    }
    const load = async (side: keyof typeof sides, forSeconds: number) => {
      const endsAt = performance.now() + forSeconds * 1_000
      let pictures = 0
      const lane = async () => {
        while (performance.now() < endsAt) {
          await upload(side)
          pictures++
        }
      }
      await Promise.all(Array.from({ length: inFlight }, lane))
      return pictures
    }
    const measure = async (side: keyof typeof sides): Promise<PictureRun> => {
      const { parts } = sides[side]
      await pause(1)
      const idleSince = readCpu(parts)
      await pause(restSeconds)
      const idlePerSecond = scale(cpuSince(parts, idleSince), 1 / restSeconds)
      const [before, startedAt] = [readCpu(parts), performance.now()]
      const pictures = await load(side, seconds)
      const took = (performance.now() - startedAt) / 1_000
      // What the jobs behind it do is its cost, too.
      await pause(1)
      const idle = scale(idlePerSecond, (performance.now() - startedAt) / 1_000)
      const used = cpuSince(parts, before)
      const cpuByPart = Object.fromEntries(
        Object.entries(used).map(([part, cpu]) => [part, (cpu - idle[part]!) / pictures]),
      )
      return { pictures, perSecond: pictures / took, cpu: sum(cpuByPart), cpuByPart }
    }
    say(`pictures: ${name}, ${Math.round(bytes.length / 1_024)} KiB`)
    // Few pictures a second run through much code: it takes them long to be compiled.
    for (const side of ["bare", "starling"] as const) await load(side, isFirst ? warmUpSeconds : 1)
    isFirst = false
    const measured = await alternate(runs, { bare: () => measure("bare"), starling: () => measure("starling") })
    cases.push({
      name,
      bytes: bytes.length,
      runs: measured,
      cpu: compare(
        measured,
        run => run.cpu,
        run => run.cpu,
      ),
      perSecond: compare(
        measured,
        run => run.perSecond,
        run => run.perSecond,
      ),
    })
  }
  return cases
}

const summarize = ({ pictures = [] }: PicturesResults): Line[] =>
  pictures.flatMap(({ name, runs, cpu, perSecond }): Line[] => [
    {
      work: `CPU per picture, ${name}, ${inFlight} in flight`,
      bare: microseconds(cpu.bare),
      starling: `${microseconds(cpu.starling)} (${partsOf(runs.starling.map(run => run.cpuByPart))})`,
      ...ratio(cpu, 1.15),
    },
    {
      work: "… beyond what the bare server takes",
      bare: "",
      starling: "",
      value: figure(runs.starling.map((run, i) => (run.cpu - runs.bare[i]!.cpu) / 1_000)),
      unit: "ms",
    },
    {
      work: "… pictures",
      bare: `${round(perSecond.bare.median)}/s`,
      starling: `${round(perSecond.starling.median)}/s`,
      ...ratio(perSecond),
    },
  ])
