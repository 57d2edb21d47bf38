import { BaseSequencer, type TestSpecification } from "vitest/node"

/** Files that mostly wait, for longer than any other: begun last, one of them would run alone in the end. */
const first = ["tests/dependencies-redis.test.ts", "tests/dependencies-postgres.test.ts", "tests/presence.test.ts"]

/** As vitest has it, but for those that have to begin at once. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const placeOf = ({ moduleId }: TestSpecification) => {
      const place = first.findIndex(name => moduleId.endsWith(name))
      return place < 0 ? first.length : place
    }
    return (await super.sort(files)).toSorted((a, b) => placeOf(a) - placeOf(b))
  }
}
