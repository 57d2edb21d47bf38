/** A file of the machine as the client uploads it. */
export const fileOf = async (file: File) => ({
  bytes: new Uint8Array(await file.arrayBuffer()),
  filename: file.name,
  type: file.type,
})

export type FileToUpload = Awaited<ReturnType<typeof fileOf>>
