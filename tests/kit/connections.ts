import { redisKeys } from "../../src/cluster/keys.ts"
import { openRedis } from "../../src/cluster/redis.ts"

/** How many gateway connections of a user are counted, over all workers. */
export async function connectionsOf(
  { redisUrl, redisPrefix }: { redisUrl: string; redisPrefix: string },
  user: string,
): Promise<number> {
  const redis = openRedis(redisUrl, "test", () => {})
  await redis.connect()
  try {
    return await redis.hlen(redisKeys(redisPrefix).gatewayConnections(user))
  } finally {
    redis.disconnect()
  }
}
