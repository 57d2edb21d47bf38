import { expect, test } from "vitest"
import { cleanFilename, contentDisposition, extensionOf, isExecutableName, keptExtension } from "./filenames.ts"

test("a name keeps its script and loses paths, control characters and what turns it round", () => {
  const cases: [string | undefined, string][] = [
    ["photo.png", "photo.png"],
    ["Ünïcødé 照片 صورة 🐦.jpeg", "Ünïcødé 照片 صورة 🐦.jpeg"],
    ["👩‍👩‍👧.png", "👩‍👩‍👧.png"],
    ["../../etc/passwd", "passwd"],
    ["C:\\Users\\ada\\cat.gif", "cat.gif"],
    ["a\u0000b\r\nc\u001b.txt", "abc.txt"],
    ["invoice\u202egnp.exe", "invoicegnp.exe"],
    ["x.exe. . ", "x.exe"],
    ["x.exe\u200b", "x.exe"],
    ["..", "file"],
    ["/", "file"],
    ["", "file"],
    [undefined, "file"],
    [".gitignore", ".gitignore"],
  ]
  for (const [given, clean] of cases) expect(cleanFilename(given)).toBe(clean)
})

test("a name has at most 255 characters, however many bytes, and keeps its extension", () => {
  const long = cleanFilename(`${"🐦".repeat(300)}.png`)
  expect(Array.from(long)).toHaveLength(255)
  expect(long.endsWith("🐦.png")).toBe(true)
  expect(Array.from(cleanFilename("x".repeat(400)))).toHaveLength(255)
  expect(Array.from(cleanFilename(`x.${"y".repeat(400)}`))).toHaveLength(255)
})

test("what would be run when it is opened is known by its extension, however that is written", () => {
  for (const name of [
    "a.exe",
    "A.EXE",
    "a.png.Exe",
    "a.exe:txt",
    "a.exe ",
    ".sh",
    "run.py",
    "setup.msi",
    "l.lnk",
    "x.url",
  ])
    expect([name, isExecutableName(cleanFilename(name))]).toEqual([name, true])
  for (const name of ["a.txt", "exe", "a.exe.gz", "a.pdf", "bash history.txt", "a."])
    expect([name, isExecutableName(cleanFilename(name))]).toEqual([name, false])
  expect([
    extensionOf("a.TXT"),
    extensionOf("a"),
    keptExtension("a.b c"),
    keptExtension("a.照片"),
    keptExtension("a.tar.gz"),
  ]).toEqual(["txt", "", ".b", "", ".gz"])
  expect(keptExtension("a.12345678901")).toBe("")
})

test("the header says a name in ASCII, and as it is", () => {
  expect(contentDisposition("attachment", 'a "b" \\ é 🐦 100%.txt')).toBe(
    `attachment; filename="a _b_ _ _ _ 100_.txt"; filename*=UTF-8''a%20%22b%22%20%5C%20%C3%A9%20%F0%9F%90%A6%20100%25.txt`,
  )
  expect(contentDisposition("inline", "it's (1)*.png")).toBe(
    `inline; filename="it's (1)*.png"; filename*=UTF-8''it%27s%20%281%29%2A.png`,
  )
})
