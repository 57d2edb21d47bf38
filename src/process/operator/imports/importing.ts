import type { Snowflake } from "../../../contract/core/fields.ts"
import type { ImportStep } from "../../../storage/imports.ts"
import type { ImportSteps } from "../../../storage/storage.ts"
import { Refusal } from "../saying.ts"
import type { fileKeeper } from "./files.ts"
import type { NewIds } from "./ids.ts"
import type { Report } from "./report.ts"
import type { ImportState } from "./state.ts"

/** An import that is under way. */
export interface Importing {
  readonly id: string
  readonly state: ImportState
  readonly report: Report
  readonly ids: NewIds
  readonly files: ReturnType<typeof fileKeeper>
  /** Whether an account may not be called so. */
  readonly refusesName: (name: string) => boolean
  /** The account that owns what is imported; undefined: the one whom the export names. */
  readonly owner: Snowflake | undefined
  readonly nowS: () => number
  step<T>(act: (step: ImportStep) => Promise<T>): Promise<T>
}

/** Every step holds the import (IMP2). */
export const stepsOf =
  (steps: ImportSteps, id: string): Importing["step"] =>
  act =>
    steps.step(async step => {
      if (!(await step.hold(id))) throw new Refusal("another process has finished this import")
      return act(step)
    })
