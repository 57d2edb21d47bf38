/** The service at a glance. */
import { newOperator } from "../kit/area.ts"
import { expect, test } from "../kit/test.ts"

test("the dashboard counts what is there, and says how the host is", async ({ cluster }) => {
  const [east, west] = await cluster.boot(2)
  const operator = await newOperator(cluster)
  const nobody = await operator.on(east!).getDashboard()
  expect(nobody).toMatchObject({
    tickets: { open: 0, in_progress: 0, resolved: 0, closed: 0, total: 0 },
    active_users: 0,
    total_users: 0,
    scheduled_deletions: 0,
    db_status: "healthy",
    server_version: "a.1.0-49",
  })
  const [ada, lin, eve] = await Promise.all(["ada", "lin", "eve"].map(name => cluster.person(name, east)))
  await cluster.sql`UPDATE users SET deletion_status = 'frozen', deletion_at = 9999999999 WHERE id = ${eve!.id}`
  await cluster.sql`UPDATE users SET last_login = 1 WHERE id = ${lin!.id}`
  await cluster.sql`
    INSERT INTO feedback (id, user_id, content, status, created_at)
    SELECT n, ${ada!.id}, 'words', status, 1 FROM unnest('{open,open,in_progress,closed}'::text[]) WITH ORDINALITY AS f(status, n)`
  // Another worker has counted nothing yet.
  const now = await operator.on(west!).getDashboard()
  expect(now).toMatchObject({
    tickets: { open: 2, in_progress: 1, resolved: 0, closed: 1, total: 4 },
    active_users: 2,
    total_users: 3,
    scheduled_deletions: 1,
  })
  if (process.platform !== "linux") return
  expect(now.system).toMatchObject({ thread_count: expect.any(Number) })
  expect(now.system!.memory_used_mb).toBeGreaterThan(0)
  expect(now.system!.memory_used_mb).toBeLessThan(now.system!.memory_total_mb)
  expect(now.system!.uptime_seconds).toBeGreaterThan(0)
})

test("counts that cannot be read are 0, and the dashboard says so", async ({ cluster }) => {
  const [east] = await cluster.boot(1)
  const operator = await newOperator(cluster)
  await cluster.sql`ALTER TABLE feedback RENAME TO feedback_elsewhere`
  expect(await operator.on(east!).getDashboard()).toMatchObject({ db_status: "degraded", total_users: 0 })
  await cluster.sql`ALTER TABLE feedback_elsewhere RENAME TO feedback`
  expect(await operator.on(east!).getDashboard()).toMatchObject({ db_status: "healthy" })
})
