import { expect, test as plain } from "vitest"
import { Cluster, clusters, type BootOptions, type Worker } from "./cluster.ts"
import { takeBreaches } from "./conformance.ts"

export { expect } from "vitest"

/** A cluster for every test of a file, with two workers. Tests stay apart by having their own people and servers. */
export interface SharedCluster extends Cluster {
  readonly east: Worker
  readonly west: Worker
}

type SharedOptions = BootOptions & {
  jobWorkers?: number
  /** Pictures are encoded, without a job worker. */
  encodes?: boolean
}

/**
 * `test` with two fixtures: `cluster`, empty, for one test; `shared`, booted once for the file with these options. After
 * every test its replies and frames must have kept to the contract, and no worker may have logged an error.
 */
export const testWith = ({ jobWorkers = 0, encodes = false, ...options }: SharedOptions = {}) =>
  plain.extend<{ $test: { cluster: Cluster; conformance: void }; $file: { shared: SharedCluster } }>({
    shared: [
      // oxlint-disable-next-line no-empty-pattern -- vitest reads the pattern
      async ({}, use) => {
        const cluster = await Cluster.create()
        try {
          const [east, west] = await cluster.boot(2, options)
          if (encodes) await cluster.encodePictures()
          for (let i = 0; i < jobWorkers; i++) await cluster.bootJobWorker(options)
          await use(Object.assign(cluster, { east: east!, west: west! }))
        } finally {
          await cluster.close()
        }
      },
      { scope: "file" },
    ],
    // oxlint-disable-next-line no-empty-pattern -- vitest reads the pattern
    cluster: async ({}, use) => {
      const cluster = await Cluster.create()
      try {
        await use(cluster)
      } finally {
        await cluster.close()
      }
    },
    conformance: [
      // oxlint-disable-next-line no-empty-pattern -- vitest reads the pattern
      async ({}, use) => {
        takeBreaches()
        await use()
        const errors = [...clusters].flatMap(cluster => cluster.errors.splice(0))
        expect([...takeBreaches(), ...errors], "breaches of the contract, and what workers logged as errors").toEqual(
          [],
        )
      },
      { auto: true },
    ],
  })

export const test = testWith()
