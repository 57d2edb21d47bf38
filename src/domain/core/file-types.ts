/**
 * A file's facts: what it is kept under, what it is by its content, its SHA-256 in hex, and its
 * bytes.
 */
export interface FileState {
  file: string
  content_type: string
  hash: string
  size: number
}
/** What files are by their first bytes, as far as that can be said. */

/** How many of them it takes. */
export const firstBytes = 1_024

type Begins = (head: Buffer) => boolean

const hex =
  (bytes: string, at = 0): Begins =>
  head =>
    head.subarray(at, at + bytes.length / 2).toString("hex") === bytes
const text =
  (bytes: string, at = 0): Begins =>
  head =>
    head.subarray(at, at + bytes.length).toString("latin1") === bytes
const both =
  (...all: readonly Begins[]): Begins =>
  head =>
    all.every(begins => begins(head))
const oneOf =
  (...all: readonly Begins[]): Begins =>
  head =>
    all.some(begins => begins(head))

const riff = (form: string) => both(text("RIFF"), text(form, 8))
/** ISO 14496-12; older QuickTime files begin with another box. */
const isoMedia = oneOf(...["ftyp", "moov", "mdat", "wide", "free", "skip"].map(box => text(box, 4)))
const isoPicture = (...brands: string[]) => both(text("ftyp", 4), oneOf(...brands.map(brand => text(brand, 8))))
const matroska = hex("1a45dfa3")
const ogg = text("OggS")
const zip = oneOf(hex("504b0304"), hex("504b0506"), hex("504b0708"))
/** The beginning of an MPEG audio frame: eleven bits, then a layer that is not the reserved one. */
const mpegFrame: Begins = head => head.length > 1 && head[0] === 0xff && (head[1]! & 0xe0) === 0xe0

/**
 * The first type of each is what a file is called whose sender says nothing, unless its beginning
 * says too little.
 */
const kinds: readonly { readonly types: readonly string[]; readonly begins: Begins; readonly isVague?: true }[] = [
  { types: ["image/png", "image/apng"], begins: hex("89504e470d0a1a0a") },
  { types: ["image/jpeg", "image/jpg", "image/pjpeg"], begins: hex("ffd8ff") },
  { types: ["image/gif"], begins: oneOf(text("GIF87a"), text("GIF89a")) },
  { types: ["image/webp"], begins: riff("WEBP") },
  { types: ["image/avif"], begins: isoPicture("avif", "avis", "mif1") },
  { types: ["image/heic", "image/heif"], begins: isoPicture("heic", "heix", "heim", "heis", "hevc", "mif1", "msf1") },
  { types: ["image/bmp", "image/x-ms-bmp"], begins: text("BM"), isVague: true },
  { types: ["image/tiff"], begins: oneOf(hex("49492a00"), hex("4d4d002a")) },
  { types: ["image/x-icon", "image/vnd.microsoft.icon"], begins: hex("00000100"), isVague: true },
  { types: ["audio/mpeg", "audio/mp3"], begins: oneOf(text("ID3"), mpegFrame), isVague: true },
  { types: ["audio/wav", "audio/x-wav", "audio/wave", "audio/vnd.wave"], begins: riff("WAVE") },
  { types: ["audio/flac", "audio/x-flac"], begins: text("fLaC") },
  { types: ["audio/aac"], begins: oneOf(text("ADIF"), mpegFrame), isVague: true },
  { types: ["audio/ogg", "video/ogg", "application/ogg", "audio/opus"], begins: ogg },
  {
    types: [
      "video/mp4",
      "audio/mp4",
      "audio/x-m4a",
      "audio/m4a",
      "video/x-m4v",
      "video/quicktime",
      "video/3gpp",
      "audio/3gpp",
    ],
    begins: isoMedia,
  },
  { types: ["video/webm", "audio/webm", "video/x-matroska", "audio/x-matroska"], begins: matroska },
  { types: ["video/x-msvideo", "video/avi"], begins: riff("AVI ") },
  { types: ["video/mpeg"], begins: oneOf(hex("000001ba"), hex("000001b3")) },
  { types: ["application/pdf"], begins: head => head.includes("%PDF-") },
  { types: ["application/zip", "application/x-zip-compressed"], begins: zip },
  { types: ["application/gzip", "application/x-gzip"], begins: hex("1f8b") },
  { types: ["application/x-7z-compressed"], begins: hex("377abcaf271c") },
  { types: ["application/vnd.rar", "application/x-rar-compressed"], begins: hex("526172211a07") },
  { types: ["application/x-bzip2"], begins: text("BZh") },
  { types: ["application/x-xz"], begins: hex("fd377a585a00") },
]
const kindOf = new Map(kinds.flatMap(kind => kind.types.map(type => [type, kind] as const)))

/** Text has no first bytes; it has no zeros, unless it is UTF-16 and says so. */
const texts = new Set(["text/plain", "text/csv", "text/markdown", "application/json"])
const utf16 = oneOf(hex("fffe"), hex("feff"))
const holdsZero: Begins = head => head.includes(0)

const unknownType = "application/octet-stream"

/** RFC 6838, and no longer than any type that is registered. */
const typeShape = /^[a-z0-9][a-z0-9!#$&^_.+-]*\/[a-z0-9][a-z0-9!#$&^_.+-]*$/
const longestType = 100
/** What browsers run scripts of. Nobody shall be told to open it as such. */
const scripted = /^text\/html$|[/+]xml$/

/** What a sender says of a file: its bare type in lower case. */
export const declaredType = (given: string | undefined): string => (given ?? "").split(";")[0]!.trim().toLowerCase()

/**
 * What a file is called from now on. A type that is known has to fit its first bytes. One that is
 * not known is kept as it was said; where its sender said nothing, the first bytes do. @returns
 * undefined: it is not what it is said to be
 */
export function contentTypeOf(declared: string, head: Buffer): string | undefined {
  const kind = kindOf.get(declared)
  if (kind) return kind.begins(head) ? declared : undefined
  if (texts.has(declared)) return holdsZero(head) && !utf16(head) ? undefined : declared
  if (declared !== "" && declared !== unknownType) return mayBeKept(declared) ? declared : unknownType
  return kinds.find(({ begins, isVague }) => !isVague && begins(head))?.types[0] ?? unknownType
}

const mayBeKept = (declared: string): boolean =>
  declared.length <= longestType && typeShape.test(declared) && !scripted.test(declared)

/** What browsers are told that a file is: nothing that was not looked at. */
export const servedType = (type: string): string => (kindOf.has(type) || texts.has(type) ? type : unknownType)

/** Pictures, sounds and films that browsers show without running anything of them. */
export const isShown = (type: string): boolean => /^(?:image|audio|video)\//.test(type) && kindOf.has(type)

const executableTypes = new Set([
  "application/x-msdownload",
  "application/x-msdos-program",
  "application/x-dosexec",
  "application/x-ms-installer",
  "application/x-msi",
  "application/x-ms-shortcut",
  "application/vnd.microsoft.portable-executable",
  "application/x-executable",
  "application/x-sharedlib",
  "application/x-object",
  "application/x-elf",
  "application/x-mach-binary",
  "application/x-sh",
  "application/x-csh",
  "application/x-shellscript",
  "text/x-shellscript",
  "text/x-sh",
  "application/x-bat",
  "application/bat",
  "application/x-powershell",
  "application/hta",
  "application/vbscript",
  "text/vbscript",
  "application/javascript",
  "application/x-javascript",
  "text/javascript",
  "application/java-archive",
  "application/x-java-archive",
  "application/java-vm",
  "application/x-python-code",
  "application/x-python",
  "text/x-python",
  "application/vnd.debian.binary-package",
  "application/x-debian-package",
  "application/x-rpm",
  "application/x-redhat-package-manager",
  "application/x-apple-diskimage",
])
export const isExecutableType = (declared: string): boolean => executableTypes.has(declared)

/**
 * Programs of Windows, Linux and macOS, classes of Java, packages, and whatever names its
 * interpreter. A text may begin with MZ as well; the head of a program has zeros, if only those of
 * the offset of its second one.
 */
export const isProgram: (head: Buffer) => boolean = oneOf(
  both(text("MZ"), holdsZero),
  hex("7f454c46"),
  ...["feedface", "feedfacf", "cefaedfe", "cffaedfe", "cafebabe", "bebafeca"].map(bytes => hex(bytes)),
  text("#!"),
  text("!<arch>\ndebian"),
  hex("edabeedb"),
)
