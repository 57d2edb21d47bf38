import { createHmac } from "node:crypto"
import fc from "fast-check"
import { describe, expect, test } from "vitest"
import { voiceAllowance } from "../accounts/tiers.ts"
import {
  dayOf,
  hintedBitrate,
  iceServersFor,
  mediaEndpoint,
  orderAbove,
  secondsByDay,
  usedUpAt,
  voiceSessionId,
  withDeafness,
  noFlags,
  type VoicePolicy,
} from "./voice.ts"

const day = 86_400_000
/** Noon of some day. */
const noon = 20_000 * day + day / 2

test("of two voice sessions of a user the newer one has the greater id, however long its number is", () => {
  const random = ["f".repeat(16), "0".repeat(16)] as const
  const ids = ["1", "9", "10", "407837345124353", "382712242427465728", "18446744073709551615"]
  const sessions = ids.map((order, i) => voiceSessionId(order, random[i % 2]!))
  for (const session of sessions) expect(session).toMatch(/^[\da-f]{32}$/)
  expect(sessions.toSorted()).toEqual(sessions)
})

test("an order is above that of the voice session before, also when the clock fell", () => {
  const before = voiceSessionId("1000", "f".repeat(16))
  expect(orderAbove(undefined, "7")).toBe("7")
  expect(orderAbove(before, "2000")).toBe("2000")
  for (const order of ["7", "1000"]) {
    expect(orderAbove(before, order)).toBe("1001")
    expect(voiceSessionId(orderAbove(before, order), "0".repeat(16)) > before).toBe(true)
  }
})

describe("what is used of a day", () => {
  test("seconds that have begun count", () => {
    expect(secondsByDay(noon, noon)).toEqual([])
    expect(secondsByDay(noon, noon + 1)).toEqual([[20_000, 1]])
    expect(secondsByDay(noon, noon + 60_000)).toEqual([[20_000, 60]])
  })

  test("each day has its own", () => {
    const midnight = 20_001 * day
    expect(secondsByDay(midnight - 1_500, midnight + 500)).toEqual([
      [20_000, 2],
      [20_001, 1],
    ])
    expect(secondsByDay(noon, noon + 2 * day)).toEqual([
      [20_000, 43_200],
      [20_001, 86_400],
      [20_002, 43_200],
    ])
  })

  test("no second is lost or counted twice, however long it takes", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 3 * day }), fc.integer({ min: 0, max: 3 * day }), (start, length) => {
        const from = noon + start
        const pieces = secondsByDay(from, from + length)
        const sum = pieces.reduce((total, [, seconds]) => total + seconds, 0)
        expect(sum).toBeGreaterThanOrEqual(length / 1000)
        expect(sum).toBeLessThan(length / 1000 + Math.max(1, pieces.length))
        expect(pieces.map(([one]) => one)).toEqual(pieces.map((_, i) => dayOf(from) + i))
      }),
    )
  })
})

describe("when a call ends", () => {
  const nothingUsed = () => 0

  test("after what is left of the day", () => {
    expect(usedUpAt(7_200, nothingUsed, noon)).toBe(noon + 7_200_000)
    expect(usedUpAt(7_200, () => 7_000, noon)).toBe(noon + 200_000)
    expect(usedUpAt(7_200, () => 9_000, noon)).toBe(noon)
    expect(usedUpAt(null, () => 9_000, noon)).toBeNull()
  })

  test("the next day brings all of it", () => {
    const midnight = 20_001 * day
    expect(usedUpAt(7_200, nothingUsed, midnight - 60_000)).toBe(midnight + 7_200_000)
    expect(usedUpAt(7_200, one => (one === 20_000 ? 7_190 : 0), midnight - 60_000)).toBe(midnight - 50_000)
  })

  test("a user in voice from then on has used up the allowance exactly then", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: day }),
        fc.integer({ min: 0, max: 7_200 }),
        fc.constantFrom(7_200, 28_800),
        (start, used, allowance) => {
          const from = noon + start
          const usedOf = (one: number) => (one === dayOf(from) ? used : 0)
          const end = usedUpAt(allowance, usedOf, from)!
          for (const [one, seconds] of secondsByDay(from, end))
            expect(seconds + usedOf(one)).toBeLessThanOrEqual(allowance + 1)
          expect(end - from).toBeLessThanOrEqual(2 * allowance * 1000)
        },
      ),
    )
  })

  test("the allowance is the tier's", () => {
    expect(["standard", "alpha", "premium", "staff", "unheard of"].map(voiceAllowance)).toEqual([
      7_200,
      28_800,
      null,
      null,
      7_200,
    ])
  })
})

const policy: VoicePolicy = {
  voice_enabled: true,
  voice_stun_urls: ["stun:a"],
  voice_turn_urls: [],
  voice_turn_ttl: 60,
}

const hmac = (secret: string, text: string) => createHmac("sha1", secret).update(text).digest("base64")

const inCall = { user: "7", isInCall: true, nowMs: 0 }

describe("servers for a call", () => {
  test("without a call only STUN: TURN relays at the operator's cost", () => {
    const turning = { ...policy, voice_turn_urls: ["turn:t"], voice_turn_secret: "s" }
    expect(iceServersFor(turning, { ...inCall, isInCall: false }, hmac)).toEqual([{ urls: ["stun:a"] }])
  })

  test("TURN credentials are made with the secret, and end", () => {
    const urls = ["turn:t"]
    const [stun, turn] = iceServersFor(
      { ...policy, voice_turn_urls: urls, voice_turn_secret: "s" },
      { user: "7", isInCall: true, nowMs: 1_000_999 },
      hmac,
    )
    expect(stun).toEqual({ urls: ["stun:a"] })
    const username = "1060:7"
    expect(turn).toEqual({ urls, username, credential: hmac("s", username) })
  })

  test("without a secret the operator's own name and password, or none", () => {
    const turning = { ...policy, voice_stun_urls: [], voice_turn_urls: ["turn:t"] }
    const named = { ...turning, voice_turn_username: "u", voice_turn_credential: "c" }
    expect(iceServersFor(named, inCall, hmac)).toEqual([{ urls: ["turn:t"], username: "u", credential: "c" }])
    expect(iceServersFor(turning, inCall, hmac)).toEqual([{ urls: ["turn:t"] }])
    expect(iceServersFor({ ...policy, voice_stun_urls: [] }, inCall, hmac)).toEqual([])
  })

  test("the media server is told which room and who", () => {
    expect(mediaEndpoint(policy, "1", "2")).toBeNull()
    expect(mediaEndpoint({ ...policy, voice_media_url: "wss://m.example" }, "1", "2")).toBe(
      "wss://m.example/?roomId=voice_1&peerId=user_2",
    )
  })
})

test("the bitrate that a client hints at stays within the band of its quality", () => {
  expect(hintedBitrate("excellent", undefined)).toBe(384_000)
  expect(hintedBitrate("poor", 1)).toBe(16_000)
  expect(hintedBitrate("fair", 40_000)).toBe(40_000)
  expect(hintedBitrate("critical", 99_999_999)).toBe(16_000)
  expect(hintedBitrate("unheard of", null)).toBe(128_000)
  expect(hintedBitrate(undefined, 70_000)).toBe(70_000)
})

test("who is deaf is mute", () => {
  expect(withDeafness({ ...noFlags, self_deaf: true })).toMatchObject({ self_mute: true, self_deaf: true })
  expect(withDeafness({ ...noFlags, self_mute: true })).toMatchObject({ self_mute: true, self_deaf: false })
})
