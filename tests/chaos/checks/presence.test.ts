import { expect, test } from "vitest"
import type { PresenceView } from "../history.ts"
import { Story } from "./history-of.ts"
import { presence } from "./presence.ts"

const found = (...views: PresenceView[]) =>
  presence(new Story().add({ type: "presences", views }).history).map(({ what }) => what)

test("P14: everybody looks as they are", () => {
  expect(
    found(
      { by: "asked", client: "ada", truth: "online", found: "online" },
      { by: "told", client: "eve", truth: "offline", found: "offline" },
    ),
  ).toEqual([])
})

test("P14: who stays online after their process was killed, and who looks offline though they listen, are found", () => {
  expect(
    found(
      { by: "asked", client: "ghost", truth: "offline", found: "online" },
      { by: "told", client: "ada", truth: "online", found: "offline" },
      { by: "told", client: "lin", truth: "online", found: "" },
    ),
  ).toEqual([
    "ghost is offline, and the observer found online",
    "ada is online, and the observer was told offline",
    "lin is online, and the observer was told nothing",
  ])
})
