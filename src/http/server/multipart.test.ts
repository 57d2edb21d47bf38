import { expect, test } from "vitest"
import { z } from "zod"
import { Failure } from "../../contract/core/errors.ts"
import { omittable, text } from "../../contract/core/fields.ts"
import { defineRoute, FormFile } from "../../contract/core/registry.ts"
import { partsOf, readForm } from "./multipart.ts"

const type = "multipart/form-data; boundary=X"
const field = (name: string, content: string, more = "") =>
  `--X\r\nContent-Disposition: form-data; name="${name}"${more}\r\n\r\n${content}\r\n`
const body = (...parts: string[]) => Buffer.from(`${parts.join("")}--X--\r\n`, "latin1")
const shown = (bytes: Buffer, contentType = type) =>
  partsOf(bytes, contentType).map(part => ({ ...part, bytes: part.bytes.toString("latin1") }))

const outcome = (act: () => unknown): string => {
  try {
    act()
    return "read"
  } catch (error) {
    if (error instanceof Failure) return error.code
    throw error
  }
}

test("what a client library sends is read, byte for byte", async () => {
  const form = new FormData()
  const bytes = Buffer.from(Array.from({ length: 4096 }, (_, i) => (i * 7) % 256))
  form.append("name", "gäng – 🐦")
  form.append("image", new Blob([bytes, "\r\n--", bytes], { type: "image/png" }), 'a "b".png')
  form.append("empty", "")
  const sent = new Response(form)
  const contentType = sent.headers.get("content-type") ?? ""
  const parts = partsOf(Buffer.from(await sent.arrayBuffer()), contentType)
  expect(parts.map(({ name, filename, type }) => ({ name, filename, type }))).toEqual([
    { name: "name", filename: undefined, type: undefined },
    { name: "image", filename: 'a "b".png', type: "image/png" },
    { name: "empty", filename: undefined, type: undefined },
  ])
  expect(parts[0]!.bytes.toString()).toBe("gäng – 🐦")
  expect(parts[1]!.bytes.equals(Buffer.concat([bytes, Buffer.from("\r\n--"), bytes]))).toBe(true)
  expect(parts[2]!.bytes.length).toBe(0)
})

test("boundaries, heads and line ends as clients write them", () => {
  const one = [{ name: "a", bytes: "hello", filename: undefined, type: undefined }]
  expect(shown(body(field("a", "hello")))).toEqual(one)
  for (const contentType of [
    'multipart/form-data; boundary="X"',
    "Multipart/Form-Data;Boundary=X",
    "multipart/form-data; charset=utf-8; boundary=X",
    "multipart/form-data; boundary=X; charset=utf-8",
  ])
    expect(shown(body(field("a", "hello")), contentType)).toEqual(one)
  expect(shown(Buffer.from(`preamble\r\n${field("a", "hello")}--X--epilogue`))).toEqual(one)
  expect(shown(Buffer.from(`${field("a", "hello").replace("--X", "--X \t")}--X--`))).toEqual(one)
  expect(shown(body(field("a", "x--X\r\n\r\n-X")))).toMatchObject([{ bytes: "x--X\r\n\r\n-X" }])
  expect(shown(body(field("a", "x", '; filename="a\\"b\\\\c%22;name=d.png"')))).toMatchObject([
    { name: "a", filename: 'a"b\\c";name=d.png' },
  ])
  expect(shown(body(field("a", "x").replace('"a"', "a")))).toMatchObject([{ name: "a", bytes: "x" }])
  expect(shown(body())).toEqual([])
})

test("what is no form, or cut off anywhere, is a validation error", () => {
  const whole = body(field("a", "hello"), field("b", "x", '; filename="x.png"'))
  for (let length = 0; length < whole.length - 2; length++)
    expect(outcome(() => partsOf(whole.subarray(0, length), type))).toBe("validation_failed")
  expect(outcome(() => partsOf(whole, type))).toBe("read")
  for (const contentType of [
    undefined,
    "",
    "application/json",
    "multipart/form-data",
    "multipart/mixed; boundary=X",
    `multipart/form-data; boundary=${"X".repeat(71)}`,
  ])
    expect(outcome(() => partsOf(whole, contentType))).toBe("validation_failed")
  for (const wrong of [
    "--X\r\n\r\nhello\r\n--X--",
    '--X\r\nContent-Disposition: attachment; name="a"\r\n\r\nhello\r\n--X--',
    "--X\r\nContent-Disposition: form-data\r\n\r\nhello\r\n--X--",
    `--X\r\nX: ${"x".repeat(5000)}\r\nContent-Disposition: form-data; name="a"\r\n\r\nhello\r\n--X--`,
    '--X\nContent-Disposition: form-data; name="a"\n\nhello\n--X--',
    "--X\r\n--X--",
    `${field("a", "x").repeat(33)}--X--`,
  ])
    expect(outcome(() => partsOf(Buffer.from(wrong), type))).toBe("validation_failed")
  expect(outcome(() => partsOf(undefined, type))).toBe("validation_failed")
})

const route = defineRoute({
  method: "POST",
  path: "/x",
  summary: "",
  tag: "",
  auth: "public",
  body: z.object({ name: text(1, 5), tags: omittable(text(0, 10)), image: FormFile }),
  example: { name: "ada" },
  form: { file: { name: "image", bytes: 8, tooLarge: "payload_too_large" } },
  reply: z.null(),
  fails: [],
})
const read = (bytes: Buffer, contentType = type) => readForm(bytes, contentType, route)

test("a form is held against its route: what is missing, too much, not text", () => {
  const image = field("image", "12345678", '; filename="x.png"\r\nContent-Type: image/png')
  expect(read(body(field("name", "a"), field("name", "ada"), field("other", "\xff"), image))).toEqual({
    name: "ada",
    tags: undefined,
    image: { bytes: Buffer.from("12345678"), filename: "x.png", type: "image/png" },
  })
  expect(outcome(() => read(body(image)))).toBe("validation_failed")
  expect(outcome(() => read(body(field("name", "ada"))))).toBe("validation_failed")
  expect(outcome(() => read(body(field("name", "toolong"), image)))).toBe("validation_failed")
  expect(outcome(() => read(body(field("name", "a\0"), image)))).toBe("unsafe_text")
  expect(outcome(() => read(body(field("name", "\xff"), image)))).toBe("bad_request")
  expect(outcome(() => read(body(field("name", "ada"), image.replace("12345678", "123456789"))))).toBe(
    "payload_too_large",
  )
  expect(outcome(() => read(Buffer.from("name=ada&image=x"), "application/x-www-form-urlencoded"))).toBe(
    "validation_failed",
  )
})

test("a form without a file may be urlencoded", () => {
  const plain = defineRoute({
    method: "POST",
    path: "/x",
    summary: "",
    tag: "",
    auth: "public",
    body: z.object({ name: text(1, 5) }),
    example: { name: "ada" },
    form: {},
    reply: z.null(),
    fails: [],
  })
  const url = "application/x-www-form-urlencoded; charset=utf-8"
  expect(readForm(Buffer.from("name=%C3%A4da&other=1"), url, plain)).toEqual({ name: "äda" })
  expect(outcome(() => readForm(Buffer.from("name=%00"), url, plain))).toBe("unsafe_text")
  expect(outcome(() => readForm(undefined, url, plain))).toBe("validation_failed")
  expect(readForm(body(field("name", "ada")), type, plain)).toEqual({ name: "ada" })
})
