import { BaseSequencer, type TestSpecification } from "vitest/node"

/** Files that mostly wait, with the seconds that they take. One after the other, they leave the cores to those that compute. */
const waiting: Readonly<Record<string, number>> = {
  "tests/accounts/mail.test.ts": 25,
}
/** Others that take long: begun last, one of them would run alone in the end. */
const computing: Readonly<Record<string, number>> = {
  // First, though short: it collects garbage two dozen times, which is slow in a process that has run much.
  "src/gateway/state/session.test.ts": 100,
  "tests/simulator/histories.test.ts": 60,
  "tests/cluster/take-over.test.ts": 95,
  "tests/gateway/barrier.test.ts": 95,
  "tests/cluster/redis-cluster.test.ts": 75,
  "tests/gateway/resume.test.ts": 75,
  "tests/process/start-up.test.ts": 65,
  "tests/app/page.test.ts": 70,
  "tests/cluster/redis-sentinel.test.ts": 60,
  "tests/process/backup.test.ts": 45,
  "tests/operators/page.test.ts": 40,
  "tests/messages/file-store.test.ts": 35,
  "tests/process/host-sockets.test.ts": 30,
  "tests/process/log-files.test.ts": 28,
  "tests/gateway/client-package.test.ts": 28,
  "tests/app/sign-in.test.ts": 26,
  "tests/app/offline.test.ts": 26,
  "tests/contract/gates.test.ts": 25,
  "tests/cluster/redis-failover.test.ts": 60,
  "tests/cluster/shards.test.ts": 50,
  "tests/process/embedded.test.ts": 45,
  "tests/security/authorization.test.ts": 40,
  "tests/accounts/security-logout.test.ts": 40,
  "tests/service/operator.test.ts": 40,
  "tests/social/relationships.test.ts": 38,
  "tests/cluster/hosts.test.ts": 40,
  "tests/process/image.test.ts": 30,
  "tests/process/proxies.test.ts": 25,
  "tests/process/deploy.test.ts": 8,
  "tests/messages/attachments.test.ts": 36,
  "tests/security/hostile-clients.test.ts": 36,
  "tests/process/processes.test.ts": 70,
  "tests/process/stuck-workers.test.ts": 33,
  "tests/gateway/ready-model.test.ts": 32,
  "tests/process/rolling-restart.test.ts": 28,
  "tests/messages/content.test.ts": 26,
  "tests/communities/automod.test.ts": 25,
  "tests/simulator/planted-bugs.test.ts": 20,
  "tests/security/bad-input.test.ts": 25,
  "tests/process/long-run.test.ts": 25,
  "tests/gateway/guild-members.test.ts": 24,
  "tests/process/two-versions.test.ts": 26,
  "tests/service/server-state.test.ts": 25,
  "tests/simulator/redis.test.ts": 14,
  "tests/simulator/store.test.ts": 12,
  "src/http/server/server.test.ts": 12,
  "src/gateway/fan-out/stream.test.ts": 10,
}
/**
 * After all others, in this order, with their seconds. Four workers come to them so that of those that run alone hardly two run at
 * once.
 */
const last = [
  "tests/process/dependencies-redis.test.ts", // 170
  "tests/process/dependencies-postgres.test.ts", // 140
  "tests/chaos/chaos.test.ts", // 95, alone
  "tests/voice/voice.test.ts", // 60
  "tests/social/presence.test.ts", // 70
  "tests/chaos/chaos-systems.test.ts", // 45, alone, after the one above
  "tests/communities/temporary-members.test.ts", // 30
  "tests/security/bad-neighbour/bad-neighbour.test.ts", // 65, alone, after PostgreSQL
  "tests/process/dependencies-files.test.ts", // 60
]
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
      const place = last.findIndex(name => file.moduleId.endsWith(name))
      if (place >= 0) {
        begins.set(file, 1e6 + place)
        continue
      }
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
