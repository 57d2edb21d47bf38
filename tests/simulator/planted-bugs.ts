import type { LaneCommits } from "../../src/runtime/commit-queue.ts"
import { readRowBody, rowBody, type RowAnswer } from "../../src/runtime/row.ts"
import type { Control } from "../../src/domain/core/control.ts"
import { itemsOf, type LogItem } from "../../src/domain/core/log-entry.ts"
import type { Span } from "../../src/gateway/state/log-spans.ts"
import type { Outbox } from "../../src/runtime/outbox.ts"
import type { WorkerParts } from "./worker.ts"

/**
 * Bugs of the kinds that promises exist for. Each breaks one of the objects that a worker consists
 * of, before the worker starts: one of its methods is replaced by a function that may call the
 * original. The simulator must find each of them; what it cannot find it does not check.
 */
export interface PlantedBug {
  readonly name: string
  readonly plant: (parts: WorkerParts) => void
  /** The promises of which the breach may be one; several, because one hole has many sides. */
  readonly promises: readonly string[]
  /** It shows where access is taken away. */
  readonly withBarriers?: true
  /** Where it shows early. Other seeds find it later. */
  readonly seed?: number
}

type Method = (...args: never[]) => unknown
type MethodOf<T> = { [K in keyof T]: T[K] extends Method ? K : never }[keyof T]

/** Replaces a method of an object, for all who were given the object. */
function replace<T extends object, K extends MethodOf<T>>(of: T, name: K, make: (original: T[K]) => T[K]): void {
  of[name] = make((of[name] as Method).bind(of) as T[K])
}

/** Control entries of this type reach no log. */
const withholdControls = (outbox: Outbox, type: Control["type"]) =>
  replace(outbox, "publish", publish => (rows, published, inEffect) => {
    const left = rows.map(row => ({ ...row, items: row.items.filter(item => item[0] !== "c" || item[3] !== type) }))
    publish(left, published, inEffect)
  })

/** What is kept of the answers of a batch is something else. */
const changeAnswers = (lane: LaneCommits, change: (answers: readonly RowAnswer[]) => readonly RowAnswer[]) =>
  replace(lane, "commit", commit => batch => {
    const outbox = batch.outbox.map(row => {
      const { items, answers } = readRowBody(row.body)
      return { ...row, body: rowBody(items, change(answers)) }
    })
    return commit({ ...batch, outbox })
  })

/** The same item under a row number that no other log has reached. */
function withLaterRow(item: LogItem): LogItem {
  const { header } = item
  if (header[0] === "e") {
    const [kind, shard, , ...rest] = header
    return { ...item, header: [kind, shard, Number.MAX_SAFE_INTEGER, ...rest] }
  }
  if (header[0] === "c") {
    const [kind, shard, , ...rest] = header
    return { ...item, header: [kind, shard, Number.MAX_SAFE_INTEGER, ...rest] }
  }
  return item
}

export const plantedBugs: readonly PlantedBug[] = [
  {
    name: "the answer goes out before the commit",
    plant: ({ actors: { queue } }) =>
      replace(queue, "add", add => waiting => {
        add(waiting)
        if (!("barrier" in waiting)) waiting.resolve(waiting.reply)
      }),
    promises: ["P1", "P12"],
    seed: 2,
  },
  {
    name: "events go out before the commit",
    seed: 2,
    plant: ({ cluster: { shards }, actors: { lane, outbox } }) =>
      replace(lane, "commit", commit => batch => {
        const rows = batch.outbox.flatMap(({ shard: of, number, body }) => {
          const shard = shards.get(of)
          return shard ? [{ shard, number, items: readRowBody(body).items, again: false }] : []
        })
        outbox.publish(rows, () => {})
        return commit(batch)
      }),
    promises: ["P2", "P3", "P5"],
  },
  {
    // The other way round nobody would notice: the next row finds its number taken, and the shard is opened anew.
    name: "a commit without an answer counts as done",
    plant: ({ storage: { placement } }) => replace(placement, "wasWritten", () => async () => true),
    promises: ["P1", "P2", "P5", "P8", "P12"],
    seed: 30,
  },
  {
    name: "a home is not loaded anew after its turn failed",
    plant: ({ actors: { homes } }) =>
      replace(homes, "drop", drop => home => {
        if (home.idle || home.shard.closing) drop(home)
      }),
    promises: ["P1", "P2", "P5", "P8", "P18"],
    seed: 2,
  },
  {
    name: "a new owner does not publish what it inherits",
    plant: ({ actors: { outbox } }) => replace(outbox, "republish", () => async () => {}),
    promises: ["P5"],
    seed: 2,
  },
  {
    name: "a next owner does not know what was answered",
    plant: ({ actors: { lane } }) => changeAnswers(lane, () => []),
    promises: ["P2"],
    seed: 2,
  },
  {
    name: "the answer that is kept names the message before",
    plant({ actors: { lane } }) {
      let before: unknown
      changeAnswers(lane, answers =>
        answers.map(([request, reply]): RowAnswer => {
          const kept = before ?? reply
          before = reply
          return [request, kept]
        }),
      )
    },
    promises: ["P1", "P3"],
    seed: 2,
  },
  {
    name: "a new owner forgets the last id of the one before",
    plant: ({ storage: { placement } }) =>
      replace(
        placement,
        "outbox",
        outbox => async shards => (await outbox(shards)).map(row => ({ ...row, last_id: "0" })),
      ),
    promises: ["P2", "P3", "P5"],
    seed: 28,
  },
  {
    name: "an owner that has handed a shard over goes on with it",
    plant({ storage: { placement }, actors: { host } }) {
      const handedOver = new Set<number>()
      replace(placement, "handOver", handOver => async (seen, owner, taker) => {
        const rows = await handOver(seen, owner, taker)
        if (taker !== owner) for (const { shard } of rows) handedOver.add(shard)
        return rows
      })
      replace(host, "removeShard", removeShard => shard => {
        if (handedOver.delete(shard.number)) shard.closing = false
        else removeShard(shard)
      })
    },
    promises: ["P2", "P3", "P5", "P7", "P8", "P18"],
    seed: 18,
  },
  {
    name: "an event is lost on its way to a log",
    plant: ({ actors: { outbox } }) =>
      replace(outbox, "publish", publish => (rows, published, inEffect) => {
        const left = rows.map(row =>
          row.number % 5 === 4 ? { ...row, items: row.items.filter(([kind]) => kind !== "e") } : row,
        )
        publish(left, published, inEffect)
      }),
    promises: ["P5"],
  },
  {
    name: "two pieces of the log change places",
    plant: ({ gateway }) => replace(gateway, "takeItems", take => items => take(items.toReversed())),
    promises: ["P3", "P5"],
  },
  {
    name: "what a worker appended itself is taken although something else stands in between",
    plant: ({ cluster: { streams } }) =>
      replace(streams, "takeOwn", take => run => take({ ...run, from: streams.position })),
    // What stands in between may be who is there.
    promises: ["P5", "P14"],
    seed: 61,
  },
  {
    name: "what a worker appended itself is taken and read, too",
    plant: ({ cluster: { streams, signals } }) =>
      replace(streams, "takeOwn", () => ({ from, to, fields }) => {
        if (from === streams.position && fields.length > 0) signals.emit("logItems", itemsOf(`${to}-0`, fields))
      }),
    promises: ["P2", "P3", "P5"],
  },
  {
    name: "what a worker appended itself without an answer is taken where it may stand",
    seed: 18,
    plant: ({ cluster: { streams, logs, options } }) =>
      replace(logs, "append", append => async (worker, parts) => {
        try {
          return await append(worker, parts)
        } catch (error) {
          const fields = parts.flatMap(part => part.fields)
          const from = streams.position
          if (worker === options.self.id)
            streams.takeOwn({ at: streams.at, from, to: from + fields.length / 2, fields })
          throw error
        }
      }),
    promises: ["P2", "P3", "P5"],
  },
  {
    name: "what another log gave already is given again",
    plant: ({ cluster: { streams } }) =>
      replace(streams, "recentAfter", recentAfter => position => recentAfter(position)?.map(withLaterRow)),
    promises: ["P2"],
  },
  {
    name: "who has left is not taken off the stream",
    plant: ({ actors: { outbox } }) => withholdControls(outbox, "left"),
    promises: ["P12", "P13", "P5"],
    seed: 23,
  },
  {
    name: "who was kicked or banned is not taken off the stream",
    plant: ({ actors: { outbox } }) => withholdControls(outbox, "left"),
    promises: ["P12", "P13", "P5"],
    withBarriers: true,
    seed: 8,
  },
  {
    name: "a member's roles are changed, and the gateway's view is not",
    plant: ({ actors: { outbox } }) => withholdControls(outbox, "memberRoles"),
    promises: ["P13", "P5"],
    withBarriers: true,
    seed: 53,
  },
  {
    name: "a channel is hidden, and the gateway's view does not change",
    plant: ({ actors: { outbox } }) => withholdControls(outbox, "overrides"),
    promises: ["P13", "P5"],
    withBarriers: true,
    seed: 40,
  },
  {
    name: "an owner who is one no longer goes on seeing everything",
    plant: ({ actors: { outbox } }) => withholdControls(outbox, "server"),
    promises: ["P13", "P5"],
    withBarriers: true,
    seed: 22,
  },
  {
    name: "a logout does not reach the gateway",
    plant: ({ actors: { outbox } }) => withholdControls(outbox, "sessionEnded"),
    promises: ["P12", "P14"],
  },
  {
    name: "a session that could not come back for a moment is forgotten",
    plant: ({ records }) =>
      replace(records, "save", save => async record => {
        // The record of a session that lives here ends with a span of this worker's log.
        const isGivenBack = (record.spans as readonly Span[]).at(-1)?.log !== record.worker
        if (!isGivenBack) return save(record)
        await records.forget(record.id, record.worker)
        return true
      }),
    promises: ["P6"],
  },
  {
    name: "a session is taken from the worker that has it, without a claim",
    plant: ({ records }) => replace(records, "claim", () => async () => true),
    promises: ["P5", "P6"],
  },
  {
    name: "of two roads what comes late by one is taken, too",
    plant: ({ cluster: { bus } }) => bus.road && replace(bus.road, "isNew", () => () => true),
    promises: ["BUS1"],
    seed: 19,
  },
  {
    name: "a socket does not wait for what is still on its way through Redis",
    plant: ({ cluster: { bus } }) => bus.road && replace(bus.road, "isMarker", () => () => true),
    promises: ["BUS2"],
  },
  {
    name: "what a broken socket did not carry is forgotten",
    plant: ({ cluster: { bus } }) => bus.road && replace(bus.road, "giveBack", () => () => {}),
    promises: ["BUS2", "P5"],
    seed: 37,
  },
  {
    name: "a socket to a worker that is known to be dead stays open",
    plant: ({ cluster: { bus } }) => bus.road && replace(bus.road, "forget", () => () => {}),
    promises: ["BUS3"],
    seed: 46,
  },
  {
    name: "a frame is lost on a socket that goes on",
    plant({ cluster: { bus } }) {
      let frames = 0
      if (bus.road)
        replace(bus.road, "carry", carry => (worker, outgoing) => {
          const isLost = bus.road!.hasConnection(worker) && ++frames % 20 === 0
          return isLost || carry(worker, outgoing)
        })
    },
    promises: ["BUS2"],
  },
  {
    name: "a session that has ended stays in the memory of a worker",
    plant: ({ kept }) => replace(kept, "drop", () => () => {}),
    promises: ["P12"],
  },
  {
    name: "what was looked up while sessions ended is kept",
    plant: ({ kept }) => replace(kept, "holds", () => () => true),
    promises: ["P12"],
    seed: 10,
  },
  {
    name: "interest is not written down",
    plant: ({ actors: { interests } }) => replace(interests, "add", () => async () => {}),
    promises: ["P5", "P14"],
  },
  {
    name: "of the shards whose interest is written together only the first one's is",
    plant({ actors: { interests } }) {
      let isWriting = false
      replace(interests, "add", add => (...asked) => {
        if (isWriting) return Promise.resolve()
        isWriting = true
        queueMicrotask(() => (isWriting = false))
        return add(...asked)
      })
    },
    promises: ["P5", "P14"],
  },
  {
    name: "who registers while another does is answered with the other's row",
    plant({ cluster: { router } }) {
      let first: ReturnType<typeof router.register> | undefined
      replace(router, "register", register => (...asked) => {
        const own = register(...asked)
        if (!first) {
          const isOver = () => (first = undefined)
          own.then(isOver, isOver)
          return (first = own)
        }
        const other = first
        return own.then(async answer => ({ ...answer, row: (await other).row }))
      })
    },
    promises: ["P2", "P5", "P6", "P13"],
  },
  {
    name: "jobs are confirmed and not added",
    plant: ({ jobs }) => replace(jobs, "add", () => async () => {}),
    promises: ["P15"],
    seed: 15,
  },
  {
    name: "owners are not told that a user's last session has gone",
    plant: ({ cluster: { router } }) => replace(router, "releaseSurely", release => shard => release(shard, [])),
    promises: ["P14"],
  },
  {
    name: "a shard's next owner does not look at who is there",
    plant: ({ actors: { presences } }) =>
      replace(presences, "adopt", adopt => (shard, announced) => {
        const interests = [...shard.interests]
        shard.interests.clear()
        adopt(shard, announced)
        for (const [home, workers] of interests) shard.interests.set(home, workers)
      }),
    promises: ["P14"],
  },
]
