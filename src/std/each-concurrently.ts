/**
 * Does something with each row, `maxConcurrent` at a time. After a failure that lane begins nothing
 * new while the others go on; at the end the first failure is thrown.
 */
export async function eachConcurrently<Row>(
  rows: readonly Row[],
  maxConcurrent: number,
  signal: AbortSignal,
  act: (row: Row) => Promise<void>,
): Promise<void> {
  const left = rows.values()
  const lanes = Array.from({ length: maxConcurrent }, async () => {
    for (const row of left) {
      signal.throwIfAborted()
      await act(row)
    }
  })
  const failed = (await Promise.allSettled(lanes)).find(result => result.status === "rejected")
  if (failed) throw failed.reason
}
