/**
 * The versions of Node.js for which uWebSockets.js brings a binary, by the ABI that names it, and the glibc which that needs.
 * It goes when there is one for every system.
 */
export const builds: Readonly<Record<string, { readonly node: number; readonly glibc: string }>> = {
  115: { node: 20, glibc: "2.27" },
  127: { node: 22, glibc: "2.38" },
  137: { node: 24, glibc: "2.38" },
  141: { node: 25, glibc: "2.38" },
}

export interface Platform {
  readonly system: string
  /** `v24.1.0` */
  readonly node: string
  readonly abi: string
  /** Undefined: the system has another C library, such as musl. */
  readonly glibc: string | undefined
}

export function thisPlatform(): Platform {
  const { platform: system, version: node, versions } = process
  // Without this it asks the network for the names of its sockets.
  Object.assign(process.report, { excludeNetwork: true })
  const { header } = process.report.getReport() as unknown as { header: { glibcVersionRuntime?: string } }
  return { system, node, abi: versions.modules, glibc: header.glibcVersionRuntime }
}

/** Why no process could serve here, in one line; undefined where it can. */
export function platformProblem({ system, node, abi, glibc }: Platform): string | undefined {
  const build = builds[abi]
  if (!build) {
    const versions = Object.values(builds).map(each => each.node)
    return `uWebSockets.js has no build for Node.js ${node}: run Node.js ${versions.slice(0, -1).join(", ")} or ${versions.at(-1)}`
  }
  if (system !== "linux") return undefined
  const need = `uWebSockets.js needs glibc ${build.glibc} or later for Node.js ${build.node}`
  if (glibc === undefined)
    return `${need}, and this system has another C library, as Alpine Linux does: take one with glibc`
  if (!isBelow(glibc, build.glibc)) return undefined
  const older = isBelow(glibc, builds[115]!.glibc) ? "" : `, or run Node.js 20, which needs ${builds[115]!.glibc}`
  return `${need}, and this system has ${glibc}: take Debian 13, Ubuntu 24.04, Fedora 39 or later${older}`
}

/** Versions of two numbers. */
export function isBelow(version: string, other: string): boolean {
  const [[major = 0, minor = 0], [otherMajor = 0, otherMinor = 0]] = [version, other].map(text =>
    text.split(".").map(Number),
  ) as [number[], number[]]
  return major < otherMajor || (major === otherMajor && minor < otherMinor)
}
