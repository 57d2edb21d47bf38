import { expect, test } from "vitest"
import { readerLanguage } from "./reader-language.ts"

test.each([
  ["", "en"],
  ["de", "de"],
  ["de-AT,de;q=0.9,en;q=0.8", "de"],
  ["fr, en;q=0.5, de;q=0.7", "de"],
  ["en-GB, de", "en"],
  ["DE-ch", "de"],
  ["de;q=0, fr", "en"],
  ["*", "en"],
  ["den, dee;q=0.9", "en"],
  ["de;q=high, en;q=0.9", "de"],
  [`${"fr,".repeat(2_000)}de`, "en"],
])("who accepts %j reads %s", (accepted, language) => {
  expect(readerLanguage(accepted)).toBe(language)
})
