import { expect, test } from "vitest"
import { within } from "./deadline.ts"

const never = new Promise<never>(() => undefined)

test("what comes in time is given on, a failure too", async () => {
  expect(await within(1_000, Promise.resolve("here"), () => "late")).toBe("here")
  await expect(within(1_000, Promise.reject(new Error("broken")), () => "late")).rejects.toThrow("broken")
})

test("what comes too late is answered by `late`, which may throw", async () => {
  expect(await within(1, never, () => "late")).toBe("late")
  const refused = within(1, never, () => {
    throw new Error("no answer in time")
  })
  await expect(refused).rejects.toThrow("no answer in time")
})
