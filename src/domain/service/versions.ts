import type { VersionParts } from "../../contract/service/system.ts"

const pattern = /^([abcr])\.([1-9]\d{0,8})\.(\d{1,9})-([1-9]\d{0,8})$/
const stages = "abcr"

/**
 * Reads `stage.major.minor-build`; white space around it and the case of the stage do not count.
 */
export function parseVersion(text: string): VersionParts | undefined {
  const parts = pattern.exec(text.trim().toLowerCase())
  if (!parts) return undefined
  const [string, stage, major, minor, build] = parts
  return {
    stage: stage as VersionParts["stage"],
    major: Number(major),
    minor: Number(minor),
    build: Number(build),
    string,
  }
}

/** Below 0 when `a` is older: stage, then major, then minor, then build. */
export const compareVersions = (a: VersionParts, b: VersionParts): number =>
  stages.indexOf(a.stage) - stages.indexOf(b.stage) || a.major - b.major || a.minor - b.minor || a.build - b.build
