import { expect, test } from "vitest"
import { sentinelPlace } from "./sentinel-url.ts"

test("sentinels, the name of the master and what else is said are read from a URL, and nothing else is one", () => {
  expect(sentinelPlace("redis+sentinel://one:1,[::1]:2,three/starling")).toEqual({
    sentinels: [
      { host: "one", port: 1 },
      { host: "::1", port: 2 },
      { host: "three", port: 26_379 },
    ],
    name: "starling",
    database: 0,
    username: undefined,
    password: undefined,
    sentinelPassword: undefined,
    isEncrypted: false,
  })
  expect(sentinelPlace("rediss+sentinel://app:p%2Fw@one/the%20master/3?sentinel_password=s%26t")).toMatchObject({
    username: "app",
    password: "p/w",
    name: "the master",
    database: 3,
    sentinelPassword: "s&t",
    isEncrypted: true,
  })
  expect(sentinelPlace("redis+sentinel://:secret@one/m")).toMatchObject({ username: undefined, password: "secret" })
  for (const wrong of [
    "redis+sentinel://one:1",
    "redis+sentinel:///m",
    "redis+sentinel://one,/m",
    "redis+sentinel://o:x/m",
    "redis://one/0",
    "redis+sentinel://one/%zz",
  ])
    expect(sentinelPlace(wrong), wrong).toBeUndefined()
})
