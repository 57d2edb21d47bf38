import { expect, test } from "vitest"
import { announcementOf, refusedIn, shownStatus, waitFor, type ServiceNotice } from "./server-status.ts"

const notice = (given: Partial<ServiceNotice>): ServiceNotice => ({
  state: "running",
  message: null,
  estimated_downtime_seconds: null,
  restart_at: null,
  ...given,
})

test("what clients are told of each state", () => {
  expect(announcementOf(notice({}))).toBeUndefined()
  expect(announcementOf(notice({ state: "restarting" }))).toEqual({
    status: { state: "restarting", message: "Server is restarting", estimated_downtime_seconds: 10 },
  })
  expect(announcementOf(notice({ state: "shutting_down" }))).toEqual({
    status: { state: "shutting_down", message: "Server shutting down", restart_at: null, closing_in_seconds: 2 },
    close: "server_shutdown",
  })
  expect(
    announcementOf(
      notice({ state: "maintenance", message: "Back at noon", estimated_downtime_seconds: 0, restart_at: 7 }),
    ),
  ).toEqual({
    status: {
      state: "maintenance",
      message: "Back at noon",
      estimated_downtime_seconds: 0,
      restart_at: 7,
      closing_in_seconds: 2,
    },
    close: "server_maintenance",
  })
})

test("/status says the same", () => {
  expect(shownStatus(notice({}))).toEqual({
    state: "running",
    maintenance_message: null,
    estimated_downtime_seconds: null,
    restart_at: null,
  })
  expect(shownStatus(notice({ state: "restarting", message: "", restart_at: 7 }))).toEqual({
    state: "restarting",
    maintenance_message: "Server is restarting",
    estimated_downtime_seconds: 10,
    restart_at: 7,
  })
})

test("only maintenance and the end of service turn connections away", () => {
  expect(
    (["running", "restarting", "maintenance", "shutting_down"] as const).map(state => refusedIn(notice({ state }))),
  ).toEqual([undefined, undefined, "server_maintenance", "server_shutdown"])
})

test("when to come back: at the announced time, else after the estimate, else in a minute, and never later than in an hour", () => {
  const wait = (given: Partial<ServiceNotice>) => waitFor(notice({ state: "maintenance", ...given }), 1_000)
  expect(wait({})).toBe(60)
  expect(wait({ estimated_downtime_seconds: 300 })).toBe(300)
  expect(wait({ estimated_downtime_seconds: 300, restart_at: 1_030 })).toBe(30)
  expect(wait({ estimated_downtime_seconds: 300, restart_at: 990 })).toBe(300)
  expect(wait({ restart_at: 990_000 })).toBe(3_600)
  expect(wait({ estimated_downtime_seconds: 0 })).toBe(60)
})
