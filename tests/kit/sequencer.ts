import { BaseSequencer, type TestSpecification } from "vitest/node"

/** Files that mostly wait, with the seconds that they take. One after the other, they leave the cores to those that compute. */
const waiting: Readonly<Record<string, number>> = {
  "tests/dependencies-redis.test.ts": 130,
  "tests/dependencies-postgres.test.ts": 100,
  "tests/presence.test.ts": 95,
  "tests/voice.test.ts": 60,
  "tests/temporary-members.test.ts": 36,
  "tests/mail.test.ts": 25,
}
/** Others that take long: begun last, one of them would run alone in the end. */
const computing: Readonly<Record<string, number>> = {
  "tests/simulator/histories.test.ts": 60,
  "tests/take-over.test.ts": 95,
  "tests/barrier.test.ts": 95,
  "tests/redis-cluster.test.ts": 75,
  "tests/resume.test.ts": 75,
  "tests/start-up.test.ts": 65,
  "tests/redis-failover.test.ts": 60,
  "tests/shards.test.ts": 50,
  "tests/embedded.test.ts": 45,
  "tests/authorization.test.ts": 40,
  "tests/security-logout.test.ts": 40,
  "tests/operator.test.ts": 40,
  "tests/relationships.test.ts": 38,
  "tests/hosts.test.ts": 40,
  "tests/attachments.test.ts": 36,
  "tests/hostile-clients.test.ts": 36,
  "tests/processes.test.ts": 35,
  "tests/resume-storm.test.ts": 32,
  "tests/stuck-workers.test.ts": 33,
  "tests/ready-model.test.ts": 32,
  "tests/rolling-restart.test.ts": 28,
  "tests/content.test.ts": 26,
  "tests/automod.test.ts": 25,
  "tests/simulator/planted-bugs.test.ts": 30,
  "tests/bad-input.test.ts": 25,
  "tests/long-run.test.ts": 25,
  "tests/guild-members.test.ts": 24,
  "tests/two-versions.test.ts": 26,
  "tests/server-state.test.ts": 25,
  "tests/simulator/redis.test.ts": 14,
  "tests/simulator/store.test.ts": 12,
  "src/http/server/server.test.ts": 12,
}
const shortSeconds = 4
/** Workers that take what computes, while another one waits. */
const hands = 4

/** Begins every file when a worker would come to it if the seconds above were so. */
export class EvenLoad extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const secondsIn = (table: Readonly<Record<string, number>>, { moduleId }: TestSpecification) =>
      Object.entries(table).find(([name]) => moduleId.endsWith(name))?.[1]
    const begins = new Map<TestSpecification, number>()
    let waited = 0
    const rest: { file: TestSpecification; seconds: number }[] = []
    for (const file of files.toSorted((a, b) => (secondsIn(waiting, b) ?? 0) - (secondsIn(waiting, a) ?? 0))) {
      const seconds = secondsIn(waiting, file)
      if (seconds === undefined) {
        rest.push({ file, seconds: secondsIn(computing, file) ?? shortSeconds })
        continue
      }
      begins.set(file, waited)
      waited += seconds
    }
    let computed = 0
    for (const { file, seconds } of rest.toSorted((a, b) => b.seconds - a.seconds)) {
      begins.set(file, computed)
      computed += seconds / hands
    }
    return files.toSorted((a, b) => begins.get(a)! - begins.get(b)!)
  }
}
