const reasons: Readonly<Record<string, string>> = {
  EACCES: "the user that Starling runs as may not write there",
  EPERM: "the user that Starling runs as may not write there",
  EROFS: "its file system is mounted to be read only",
  ENOSPC: "its disk is full",
  EDQUOT: "the quota of the user that Starling runs as is used up",
  ENOTDIR: "a part of the path is a file",
  EEXIST: "a file is in its place",
}

/** An error in words for people: what the system says of a path names its own call, and not what to do. */
export function sentenceOf(error: Error): string {
  const { code = "", path } = error as NodeJS.ErrnoException
  const why = reasons[code]
  if (path === undefined || why === undefined) return error.message
  return `${path} cannot be written: ${why} (${code}). Give that user the folder, or set another DATA_DIR`
}
