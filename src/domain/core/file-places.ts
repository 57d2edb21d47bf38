/** Where files are kept: a folder of this machine's, or a bucket that is spoken to as S3 is. */
export type FilePlace = FolderPlace | BucketPlace

interface FolderPlace {
  readonly kind: "folder"
  /** Absolute. */
  readonly path: string
}

export interface BucketPlace {
  readonly kind: "bucket"
  /** The origin that requests go to, and the one in links for clients. */
  readonly origin: string
  readonly publicOrigin: string
  readonly region: string
  /** What stands before a key in a path: `/bucket/prefix/`, or without the bucket where the host names it. */
  readonly path: string
  /** The path of the bucket itself, and what every key of ours in it begins with. */
  readonly bucketPath: string
  readonly prefix: string
  readonly accessKeyId: string
  readonly secretAccessKey: string
}

/** What an operator wrote cannot be a place. The message says why and repeats nothing of it: it holds a secret. */
export class PlaceProblem extends Error {}

const bucketShape = /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/
const prefixShape = /^(?:[\w.-]+\/)*$/
const parameters = ["region", "tls", "style", "public"]

/** Of `s3://KEY:SECRET@HOST[:PORT]/BUCKET[/PREFIX][?region=…&tls=on|off&style=path|host&public=URL]`. */
export function bucketPlace(text: string): BucketPlace {
  if (!/^s3:\/\//i.test(text) || !URL.canParse(text))
    throw new PlaceProblem(
      "expected s3://KEY:SECRET@HOST/BUCKET; / + ? # % and @ in the secret are written as %2F %2B %3F %23 %25 and %40",
    )
  const url = new URL(text)
  if (url.username === "" || url.password === "") throw new PlaceProblem("a key and its secret must stand before the @")
  if (url.hash !== "") throw new PlaceProblem("a # belongs to nothing here; in a secret it is written as %23")
  const [bucket = "", ...folders] = url.pathname.slice(1).split("/")
  if (!bucketShape.test(bucket)) throw new PlaceProblem("the bucket must follow the host: 3 to 63 of a-z 0-9 . -")
  const prefix = folders.filter(folder => folder !== "").map(folder => `${folder}/`)
  if (!prefixShape.test(prefix.join("")) || prefix.some(folder => /^\.+\/$/.test(folder)))
    throw new PlaceProblem("the prefix behind the bucket takes A-Z a-z 0-9 . _ - and /")
  for (const name of url.searchParams.keys())
    if (!parameters.includes(name))
      throw new PlaceProblem(`${JSON.stringify(name)} is none of ${parameters.join(", ")}`)
  const chosen = (name: string, choices: readonly [string, string]) => {
    const value = url.searchParams.get(name) ?? choices[0]
    if (!choices.includes(value)) throw new PlaceProblem(`${name} takes ${choices.join(" or ")}`)
    return value === choices[0]
  }
  const scheme = chosen("tls", ["on", "off"]) ? "https" : "http"
  const isPathStyle = chosen("style", ["path", "host"])
  const region = url.searchParams.get("region") ?? "us-east-1"
  if (!/^[a-z0-9-]{1,40}$/i.test(region)) throw new PlaceProblem("region takes a name such as eu-central-1")
  const inFront = isPathStyle ? "" : `${bucket}.`
  const bucketPath = isPathStyle ? `/${bucket}` : "/"
  const origin = `${scheme}://${inFront}${url.host}`
  if (!URL.canParse(origin)) throw new PlaceProblem("a host must stand behind the @")
  return {
    kind: "bucket",
    // As a client writes it: without the scheme's own port.
    origin: new URL(origin).origin,
    publicOrigin: publicOrigin(url.searchParams.get("public")) ?? new URL(origin).origin,
    region,
    path: `${isPathStyle ? `/${bucket}` : ""}/${prefix.join("")}`,
    bucketPath,
    prefix: prefix.join(""),
    accessKeyId: decoded(url.username),
    secretAccessKey: decoded(url.password),
  }
}

/** Of `s3://…` or `file:///…`. */
export function filePlace(text: string): FilePlace {
  if (!/^file:/i.test(text)) return bucketPlace(text)
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (!url || url.host !== "" || url.pathname.length < 2 || url.search !== "" || url.hash !== "")
    throw new PlaceProblem("expected file:///ABSOLUTE/PATH or s3://KEY:SECRET@HOST/BUCKET")
  return { kind: "folder", path: decoded(url.pathname) }
}

function publicOrigin(text: string | null): string | undefined {
  if (text === null) return undefined
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (!url || !/^https?:$/.test(url.protocol) || !["", "/"].includes(url.pathname) || url.search !== "")
    throw new PlaceProblem("public takes the URL of a host such as https://files.example")
  return url.origin
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw new PlaceProblem("a % that stands for itself is written as %25")
  }
}

export const isSamePlace = (a: FilePlace, b: FilePlace): boolean =>
  a.kind === "folder"
    ? b.kind === "folder" && a.path === b.path
    : b.kind === "bucket" && a.origin === b.origin && a.bucketPath === b.bucketPath && a.prefix === b.prefix
