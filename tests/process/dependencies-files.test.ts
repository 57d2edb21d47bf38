/** P11: the object store killed, paused or slow. What needs no file does not notice. */
import { afterAll, beforeAll } from "vitest"
import { end, start, suffer, type Fault, type World } from "../kit/dependencies.ts"
import { builtWithinMs, ownObjectStore } from "../kit/object-store.ts"
import { test } from "../kit/test.ts"

const faults: Fault[] = [
  { name: "killed", begin: ({ objects }) => objects!.kill(), end: ({ objects }) => objects!.start(), serves: true },
  { name: "paused", begin: ({ objects }) => objects!.pause(), end: ({ objects }) => objects!.resume(), serves: true },
  {
    name: "4 s late",
    begin: async ({ links }) => links.objects!.set({ delayMs: 2_000 }),
    end: async ({ links }) => links.objects!.set({}),
    serves: true,
  },
]

let world: World | undefined
let missing: string | undefined
beforeAll(async () => {
  const objects = await ownObjectStore("files")
  if (typeof objects === "string") missing = objects
  else world = await start(0, objects)
}, builtWithinMs + 90_000)
afterAll(() => end(world), 60_000)

test.for(faults)(
  "P11: object store $name: typed refusals within 5 s of what needs files, and all heals by itself",
  { timeout: 90_000 },
  async (fault, { annotate, skip }) => {
    if (missing !== undefined) skip(missing)
    await annotate(await suffer(world!, fault))
  },
)
