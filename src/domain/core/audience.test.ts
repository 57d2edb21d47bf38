import { expect, test } from "vitest"
import { z } from "zod"
import { bitOf } from "../../contract/core/intents.ts"
import { defineEvent } from "../../contract/core/registry.ts"
import { intentBit } from "./audience.ts"

const event = (intent: Parameters<typeof defineEvent>[0]["intent"]) =>
  defineEvent({ name: "X", intent, delivery: "stored", summary: "", data: z.object({}) })
const bits = (intent: Parameters<typeof defineEvent>[0]["intent"]) => [
  intentBit(event(intent), "viewers"),
  intentBit(event(intent), "user"),
]

test("an event needs the server's intent among a server's members, and the DM's where it is for a user alone", () => {
  const messages = { server: "GUILD_MESSAGES", dm: "DIRECT_MESSAGES" } as const
  expect(bits(messages)).toEqual([bitOf("GUILD_MESSAGES"), bitOf("DIRECT_MESSAGES")])
  expect(bits({ server: "GUILDS", dm: null })).toEqual([bitOf("GUILDS"), 0])
  expect(bits({ server: null, dm: "DIRECT_MESSAGES" })).toEqual([0, bitOf("DIRECT_MESSAGES")])
  expect(bits("GUILD_PRESENCES")).toEqual([bitOf("GUILD_PRESENCES"), bitOf("GUILD_PRESENCES")])
  expect(bits(null)).toEqual([0, 0])
})
