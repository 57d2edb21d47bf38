import postgres from "postgres"

/** Where the page shows a channel: what stands behind the `#`. */
export async function placeOf(databaseUrl: string, channel: string): Promise<string> {
  const sql = postgres(databaseUrl, { max: 1, onnotice: () => undefined })
  try {
    const [{ server_id }] = (await sql`
      SELECT server_id::text FROM channels WHERE id = ${channel}`) as unknown as [{ server_id: string }]
    return `#/servers/${server_id}/${channel}`
  } finally {
    await sql.end({ timeout: 5 })
  }
}
