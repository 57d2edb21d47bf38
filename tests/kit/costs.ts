import { createHook } from "node:async_hooks"
import { Session, type HeapProfiler } from "node:inspector/promises"

/** The promises that a run takes, that of its `await` included: the least of several, since what else the process does is no part of it. */
export async function leastPromises(runs: number, run: (i: number) => Promise<unknown>): Promise<number> {
  let promises = 0
  const hook = createHook({
    init(_id, type) {
      if (type === "PROMISE") promises++
    },
  })
  let least = Infinity
  hook.enable()
  for (let i = 0; i < runs; i++) {
    promises = 0
    await run(i)
    least = Math.min(least, promises)
  }
  hook.disable()
  return least
}

/** Bytes that are allocated while it runs, by a sample of them. */
export async function allocatedBytes(run: () => Promise<unknown>): Promise<number> {
  const inspector = new Session()
  inspector.connect()
  await inspector.post("HeapProfiler.startSampling", {
    // Bytes, in the inspector's words.
    // oxlint-disable-next-line style/unit-in-name
    samplingInterval: 1_024,
    includeObjectsCollectedByMajorGC: true,
    includeObjectsCollectedByMinorGC: true,
  } as HeapProfiler.StartSamplingParameterType)
  await run()
  const { profile } = await inspector.post("HeapProfiler.stopSampling")
  inspector.disconnect()
  return bytesOf(profile.head)
}

const bytesOf = ({ selfSize, children }: HeapProfiler.SamplingHeapProfileNode): number =>
  selfSize + children.reduce((all, child) => all + bytesOf(child), 0)
