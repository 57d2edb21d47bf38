import { expect, test } from "vitest"
import { elementsOf, textOf } from "./xml-text.ts"

test("elements are found by their name, and their text as it was meant", () => {
  const xml = `<?xml version="1.0"?><List xmlns="x"><Item><Key>a&amp;lt;&#x41;&#66;</Key></Item><Item><Key/></Item><Keys>c</Keys></List>`
  expect([...elementsOf(xml, "Item")]).toHaveLength(2)
  expect(textOf(xml, "Key")).toBe("a&lt;AB")
  expect(textOf(xml, "Keys")).toBe("c")
  expect(textOf(xml, "None")).toBeUndefined()
  expect(textOf("<Key>cut", "Key")).toBeUndefined()
  expect(textOf("<Key>&#x110000;&nope;</Key>", "Key")).toBe("&#x110000;&nope;")
})
