import { expect, test } from "vitest"
import { PushPlaces } from "./push-places.ts"

test("PUSH4: services that do not answer hold few places, and keep no prompt one waiting", () => {
  let now = 1_000_000
  const timeouts: number[] = []
  const places = new PushPlaces(() => now)
  const taken = (service: string): (() => void) => {
    const place = places.take(service)
    if (typeof place !== "object") throw new Error(`${service} has no place: ${place}`)
    timeouts.push(place.timeoutMs)
    return place.over
  }
  taken("good")()
  const dead = [1, 2, 3, 4].map(i => taken(`dead${i}`))
  for (const service of ["dead1", "dead5", "new"]) expect(places.take(service)).toBe(undefined)

  // One that has answered lately has places of its own, and no more than those.
  const good = Array.from({ length: 64 }, () => taken("good"))
  expect(places.take("good")).toBe(undefined)
  for (const over of good) over()
  good.forEach(over => over())
  expect(timeouts).toEqual([...Array<number>(5).fill(10_000), ...Array<number>(64).fill(3_000)])

  // Slow ones rest, whether they have answered at last or not, and leave their places to others.
  now += 10_000
  for (const over of dead) over()
  expect(places.take("dead1")).toBe(30_000)
  taken("new")()
  now += 30_000
  taken("dead1")()

  // As soon as a prompt one does not answer it is one of the others.
  const stuck = [taken("good"), taken("good")]
  now += 2_001
  expect(places.take("good")).toBe(undefined)
  const more = [taken("a"), taken("b")]
  expect(places.take("c")).toBe(undefined)
  for (const over of [...stuck, ...more]) over()
  expect(places.take("good")).toBe(30_000)
  taken("a")()
  // Nobody is prompt for ever.
  now += 600_001
  taken("a")
  expect(places.take("a")).toBe(undefined)
})
