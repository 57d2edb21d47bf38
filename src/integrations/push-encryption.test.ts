import { createECDH } from "node:crypto"
import { expect, test } from "vitest"
import { areBrowserKeys, encryptPush, maxPushBytes, newVapidKeys } from "./push-encryption.ts"

const keys = {
  p256dh: "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
  auth: "BTBZMqHH6r4Tts7J_aSIgg",
}

test("what RFC 8291 encrypts as an example is encrypted to the same bytes", () => {
  const pair = createECDH("prime256v1")
  pair.setPrivateKey(Buffer.from("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw", "base64url"))
  const salt = Buffer.from("DGv6ra1nlYgDCS1FRnbzlw", "base64url")
  expect(encryptPush("When I grow up, I want to be a watermelon", keys, pair, salt).toString("base64url")).toBe(
    "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN",
  )
  expect(encryptPush("x".repeat(maxPushBytes), keys).length).toBe(86 + 4096)
  expect(() => encryptPush("x".repeat(maxPushBytes + 1), keys)).toThrow("too long")
})

test("keys with which nothing could be encrypted are known as such", () => {
  expect(areBrowserKeys(keys)).toBe(true)
  expect(areBrowserKeys({ ...keys, p256dh: newVapidKeys().publicKey })).toBe(true)
  const off = Buffer.from(keys.p256dh, "base64url")
  off[64]! ^= 1
  expect(areBrowserKeys({ ...keys, p256dh: off.toString("base64url") })).toBe(false)
  expect(areBrowserKeys({ ...keys, p256dh: "A".repeat(87) })).toBe(false)
  expect(areBrowserKeys({ ...keys, auth: "A".repeat(24) })).toBe(false)
})
