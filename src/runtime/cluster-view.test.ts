import { expect, test } from "vitest"
import type { Membership } from "../cluster/members.ts"
import { clusterView, type DeadWorkers } from "./cluster-view.ts"

function later() {
  let resolve = () => {}
  const promise = new Promise<void>(resolved => (resolve = resolved))
  return { promise, resolve }
}

/** A view of a worker whose lease and whose PostgreSQL are as the test says. */
function viewOf() {
  const state: { serving: boolean; renewal?: Promise<void> | undefined; whole?: Promise<void> | undefined } = {
    serving: true,
  }
  const membership = {
    get serving() {
      return state.serving
    },
    renewal: () => state.renewal,
  }
  return {
    state,
    view: clusterView(membership as Membership, {} as DeadWorkers, { untilWhole: () => state.whole }),
  }
}

test("who waits goes on in the order of coming, though what is waited for changes meanwhile", async () => {
  const { state, view } = viewOf()
  expect(view.untilAble()).toBeUndefined()
  const [renewal, whole] = [later(), later()]
  Object.assign(state, { serving: false, renewal: renewal.promise })
  const wentOn: string[] = []
  const wait = (name: string) => view.untilAble()!.then(() => wentOn.push(name))
  const all = [wait("before PostgreSQL was in doubt")]
  state.whole = whole.promise
  all.push(wait("after that"))
  state.serving = true
  renewal.resolve()
  await renewal.promise
  all.push(wait("after the renewal"))
  expect(wentOn).toEqual([])
  state.whole = undefined
  whole.resolve()
  await Promise.all(all)
  expect(wentOn).toEqual(["before PostgreSQL was in doubt", "after that", "after the renewal"])
  expect(view.untilAble()).toBeUndefined()
})

test("all who waited are refused when it takes too long, and later ones at once", async () => {
  const { state, view } = viewOf()
  const over = later()
  Object.assign(state, { serving: false, renewal: over.promise })
  const waiting = [view.untilAble(), view.untilAble()]
  state.renewal = undefined
  over.resolve()
  for (const one of [...waiting, view.untilAble()])
    await expect(one).rejects.toMatchObject({ details: { extra: { reason: "worker is not serving" } } })
  state.serving = true
  expect(view.untilAble()).toBeUndefined()
})
