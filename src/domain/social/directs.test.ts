import { expect, test } from "vitest"
import { mayOpenDirect } from "./directs.ts"

test("a conversation is opened where neither has blocked the other and the recipient allows it", () => {
  const allowed = (theirs: "friend" | "blocked" | undefined, mine: "friend" | "blocked" | undefined) =>
    (["everyone", "friends", "none"] as const).filter(from => mayOpenDirect({ theirs, mine }, from))
  expect(allowed(undefined, undefined)).toEqual(["everyone"])
  expect(allowed("friend", "friend")).toEqual(["everyone", "friends"])
  // Being a friend of one's own choice is not enough.
  expect(allowed(undefined, "friend")).toEqual(["everyone"])
  expect(allowed("blocked", undefined)).toEqual([])
  expect(allowed(undefined, "blocked")).toEqual([])
})
