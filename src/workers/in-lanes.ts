/** Does something with each, so many at a time. A lane ends with what it fails at while the others go on; then that is thrown. */
export async function inLanes<Row>(
  rows: readonly Row[],
  lanes: number,
  signal: AbortSignal,
  act: (row: Row) => Promise<void>,
): Promise<void> {
  const left = rows.values()
  const running = Array.from({ length: lanes }, async () => {
    for (const row of left) {
      signal.throwIfAborted()
      await act(row)
    }
  })
  const refused = (await Promise.allSettled(running)).find(result => result.status === "rejected")
  if (refused) throw refused.reason
}
