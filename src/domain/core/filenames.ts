import { limits } from "../../contract/core/limits.ts"

/** Extensions under which some system runs a file when it is opened. */
const executable = new Set(
  (
    "exe bat cmd com msi msp msc pif scr hta cpl msu ps1 psm1 psd1 vbs vbe js jse ws wsf wsc wsh sh bash zsh csh ksh run bin elf dll so " +
    "dylib jar class py pyc pyo pyw app deb rpm dmg pkg reg inf lnk url"
  ).split(" "),
)

/**
 * Control characters, what breaks lines, and what turns the direction of writing round so that
 * `exe.png` reads as `gnp.exe`.
 */
const unwanted = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu
/** What systems drop from the end of a name, or nobody sees there. */
const droppedAtEnd = /[\s.\u200b\u2060\ufeff]+$/u
const longestExtension = 32

/**
 * The name that its sender gave a file, in any script, without a path and without what is no part
 * of a name.
 */
export function cleanFilename(given: string | undefined): string {
  const last = (given ?? "").replace(unwanted, "").split(/[/\\]/).at(-1)!.trim().replace(droppedAtEnd, "")
  if (last === "") return "file"
  const characters = Array.from(last)
  if (characters.length <= limits.filename) return last
  const dot = characters.lastIndexOf(".")
  const extension = dot > 0 && characters.length - dot <= longestExtension ? characters.slice(dot) : []
  return [...characters.slice(0, limits.filename - extension.length), ...extension].join("")
}

/**
 * What stands behind the last dot, in lower case, as far as it is letters and digits; "" where
 * nothing does.
 */
export function extensionOf(filename: string): string {
  const dot = filename.lastIndexOf(".")
  if (dot < 0) return ""
  return /^[\p{L}\p{N}]*/u.exec(filename.slice(dot + 1))![0].toLowerCase()
}

export const isExecutableName = (filename: string): boolean => executable.has(extensionOf(filename))

/**
 * The end of the name under which a file is kept: only of what every system and every address
 * takes.
 */
export function keptExtension(filename: string): string {
  const extension = extensionOf(filename)
  return /^[a-z0-9]{1,10}$/.test(extension) ? `.${extension}` : ""
}

/**
 * The header of this name (RFC 6266, RFC 8187): in ASCII for those who read no more, and as it is.
 */
export function contentDisposition(kind: "inline" | "attachment", filename: string): string {
  const ascii = filename.replace(/[^\x20-\x7e]|["\\%]/gu, "_")
  const exact = encodeURIComponent(filename).replace(
    /['()*]/g,
    sign => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return `${kind}; filename="${ascii}"; filename*=UTF-8''${exact}`
}
