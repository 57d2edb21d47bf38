import { expect, test } from "vitest"
import { bucketPlace, filePlace, isSamePlace, PlaceProblem } from "./file-places.ts"

test("a bucket's URL says where it is, in either style", () => {
  expect(bucketPlace("s3://id:a%2Fb%2Bc@127.0.0.1:7070/files/one/two?tls=off&region=eu-central-1")).toEqual({
    kind: "bucket",
    origin: "http://127.0.0.1:7070",
    publicOrigin: "http://127.0.0.1:7070",
    region: "eu-central-1",
    path: "/files/one/two/",
    bucketPath: "/files",
    prefix: "one/two/",
    accessKeyId: "id",
    secretAccessKey: "a/b+c",
  })
  expect(bucketPlace("s3://id:secret@s3.example:443/files?style=host&public=https://cdn.example/")).toMatchObject({
    origin: "https://files.s3.example",
    publicOrigin: "https://cdn.example",
    region: "us-east-1",
    path: "/",
    bucketPath: "/",
  })
})

test("what cannot be a place is told by its cause, and without its secret", () => {
  const wrong: [string, string][] = [
    ["https://id:hush@host/files", "s3://"],
    ["s3://host/files", "secret"],
    ["s3://id@host/files", "secret"],
    ["s3://id:hush@host", "bucket"],
    ["s3://id:hush@host/UPPER", "bucket"],
    ["s3://id:hush@host/files/..%2F", "prefix"],
    ["s3://id:hush@host/files?reigon=x", '"reigon"'],
    ["s3://id:hush@host/files?tls=maybe", "tls takes on or off"],
    ["s3://id:hush@host/files?style=bent", "style"],
    ["s3://id:hush@host/files?public=ftp://host", "public"],
    ["s3://id:hush@host/files?region=a%20b", "region"],
    ["s3://id:hush%ZZ@host/files", "%25"],
    ["s3://id:hush#more@host/files", "%23"],
    ["file://host/path", "file:///"],
    ["file:relative?x", "file:///"],
  ]
  for (const [text, part] of wrong) {
    let problem: unknown
    try {
      filePlace(text)
    } catch (error) {
      problem = error
    }
    expect({ text, problem }).toEqual({ text, problem: expect.any(PlaceProblem) })
    expect((problem as Error).message).toContain(part)
    expect((problem as Error).message).not.toContain("hush")
  }
})

test("a place is the same whatever key it is reached with", () => {
  const one = bucketPlace("s3://id:secret@host/files")
  expect(isSamePlace(one, bucketPlace("s3://other:key@host:443/files/?region=x"))).toBe(true)
  expect(isSamePlace(one, bucketPlace("s3://id:secret@host/files/inside"))).toBe(false)
  expect(isSamePlace(filePlace("file:///var/files"), { kind: "folder", path: "/var/files" })).toBe(true)
  expect(isSamePlace(filePlace("file:///var/files"), one)).toBe(false)
})
