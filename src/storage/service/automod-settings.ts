import type { ClassifierBackend } from "../../contract/communities/automod.ts"
import type { Sql } from "../core/database.ts"

/** What operators have set of auto-moderation, in the one row about the service. */
export interface StoredAutomodSettings {
  enabled: boolean
  /** Those that are among the classifiers. */
  backends: ClassifierBackend[]
  /** Sealed; null: none. */
  classifiers: string | null
  version: number
}

export const automodSettingsStorage = (sql: Sql) => ({
  async read(): Promise<StoredAutomodSettings> {
    const [row] = await sql<StoredAutomodSettings[]>`
      SELECT automod_enabled AS enabled, automod_backends AS backends, automod_classifiers AS classifiers, automod_version AS version
      FROM service`
    return row!
  },

  /** @returns whether nobody had changed them since they had this version */
  async write({ enabled, backends, classifiers, version }: StoredAutomodSettings): Promise<boolean> {
    const rows = await sql`
      UPDATE service SET automod_enabled = ${enabled}, automod_backends = ${backends}, automod_classifiers = ${classifiers},
        automod_version = automod_version + 1
      WHERE automod_version = ${version} RETURNING 1`
    return rows.length > 0
  },
})
