/** What changed of a thing, as the audit log shows it. */
export type Changes = Readonly<Record<string, { readonly old: unknown; readonly new: unknown }>>

/** The fields that are not the same any more; of what is new or gone, all that had a value. */
export function changesOf<T extends object>(
  before: Partial<T> | null,
  after: Partial<T> | null,
  fields: readonly (keyof T & string)[],
): Changes {
  const changes: Record<string, { old: unknown; new: unknown }> = {}
  for (const field of fields) {
    const [old, now] = [before?.[field] ?? null, after?.[field] ?? null]
    // They are what JSON can say: the log keeps them as that.
    if (JSON.stringify(old) !== JSON.stringify(now)) changes[field] = { old, new: now }
  }
  return changes
}
