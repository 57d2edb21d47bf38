import { expect, test } from "vitest"
import { contentTypeOf, declaredType, isExecutableType, isProgram, isShown, servedType } from "./file-types.ts"

const bytes = (hex: string, then = "") => Buffer.concat([Buffer.from(hex, "hex"), Buffer.from(then, "latin1")])
const samples: Record<string, Buffer> = {
  "image/png": bytes("89504e470d0a1a0a"),
  "image/jpeg": bytes("ffd8ffe0"),
  "image/gif": bytes("", "GIF89a"),
  "image/webp": bytes("", "RIFF\x01\x02\x03\x04WEBPVP8 "),
  "image/avif": bytes("00000020", "ftypavif"),
  "audio/wav": bytes("", "RIFF\x01\x02\x03\x04WAVEfmt "),
  "audio/flac": bytes("", "fLaC"),
  "audio/ogg": bytes("", "OggS"),
  "video/mp4": bytes("00000020", "ftypisom"),
  "video/webm": bytes("1a45dfa3"),
  "application/pdf": bytes("", "%PDF-1.7"),
  "application/zip": bytes("504b0304"),
  "application/gzip": bytes("1f8b08"),
}

test("a type that is known fits its own first bytes and nothing else's; who says nothing is told", () => {
  for (const [type, head] of Object.entries(samples)) {
    expect([type, contentTypeOf(type, head)]).toEqual([type, type])
    expect([type, contentTypeOf("", head)]).toEqual([type, type])
    expect([type, contentTypeOf("application/octet-stream", head)]).toEqual([type, type])
    expect([type, contentTypeOf(type, Buffer.from("<html>"))]).toEqual([type, undefined])
    expect([type, contentTypeOf(type, Buffer.alloc(0))]).toEqual([type, undefined])
    const other = type === "image/png" ? "image/gif" : "image/png"
    expect([type, contentTypeOf(other, head)]).toEqual([type, undefined])
  }
  for (const head of [bytes("fffb9064"), bytes("", "ID3\x04")])
    expect(contentTypeOf("audio/mpeg", head)).toBe("audio/mpeg")
})

test("text is text as long as it has no zeros or is UTF-16 that says so, and what browsers run is a row of bytes", () => {
  expect(contentTypeOf("text/plain", Buffer.from("hello"))).toBe("text/plain")
  expect(contentTypeOf("text/plain", Buffer.from("he\0llo"))).toBeUndefined()
  for (const head of [bytes("fffe680065006c00"), bytes("feff00680065006c")])
    expect(contentTypeOf("text/plain", head)).toBe("text/plain")
  for (const type of [
    "text/html",
    "image/svg+xml",
    "application/xhtml+xml",
    "text/xml",
    "x",
    "a/b/c",
    "a/",
    "a/\u00e9",
    `a/${"b".repeat(99)}`,
  ])
    expect(contentTypeOf(type, Buffer.from("<svg onload=alert(1)>"))).toBe("application/octet-stream")
  expect(contentTypeOf("", Buffer.from("hello"))).toBe("application/octet-stream")
  expect(declaredType(" Image/PNG ; charset=x")).toBe("image/png")
  expect(declaredType(undefined)).toBe("")
})

test("a type that nobody looks for is kept as it was said, and told to no browser", () => {
  const docx = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
  for (const type of [docx, "image/vnd.adobe.photoshop", "text/css", "video/unheard-of"]) {
    expect(contentTypeOf(type, bytes("504b0304"))).toBe(type)
    expect([servedType(type), isShown(type)]).toEqual(["application/octet-stream", false])
  }
  for (const type of ["image/png", "text/plain", "application/pdf"]) expect(servedType(type)).toBe(type)
})

test("only pictures, sounds and films that are known are shown where they are opened", () => {
  for (const type of ["image/png", "audio/mpeg", "video/mp4"]) expect(isShown(type)).toBe(true)
  for (const type of ["application/pdf", "text/plain", "image/svg+xml", "application/octet-stream", "text/html"])
    expect(isShown(type)).toBe(false)
})

test("programs are known by their first bytes and by what they are called", () => {
  for (const head of [
    Buffer.from("MZ\x90\0"),
    bytes("7f454c46"),
    bytes("cffaedfe"),
    bytes("cafebabe"),
    Buffer.from("#!/bin/sh\n"),
  ])
    expect(isProgram(head)).toBe(true)
  for (const head of [...Object.values(samples), Buffer.from("hello"), Buffer.from("MZ is text"), Buffer.alloc(0)])
    expect(isProgram(head)).toBe(false)
  expect(isExecutableType("application/x-msdownload")).toBe(true)
  expect(isExecutableType("image/png")).toBe(false)
})
