/** Put in by the build, see scripts/bundle.mjs. */
declare const STARLING_RELEASE: { version: string; commit: string } | undefined

/** What runs: the version of the package, and the commit that it was built from. */
export const release =
  typeof STARLING_RELEASE === "undefined" ? { version: "source", commit: "unknown" } : STARLING_RELEASE
