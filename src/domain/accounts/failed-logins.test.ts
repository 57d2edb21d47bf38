import { expect, test } from "vitest"
import { loginKeyOf, loginKeyOfName } from "./failed-logins.ts"

test("a name is one whatever its case, and none is the key of an account", () => {
  expect(loginKeyOfName("Ada@Navy.Example")).toBe("ada@navy.example")
  const account = loginKeyOf("41771983423143937")
  for (const name of [account, `#${account}`, "41771983423143937", "#"]) expect(loginKeyOfName(name)).not.toBe(account)
})
