import type { Cluster } from "./cluster.ts"

/** Ada's server with its first channel, and Lin as its member. */
export async function sharedServer(cluster: Cluster) {
  const [ada, lin] = await Promise.all([cluster.person("ada"), cluster.person("lin")])
  const place = cluster.workers[0]!
  const server = await ada.on(place).createServer({ name: "Shared" })
  const [channel] = await ada.on(place).listChannels({ server_id: server.id })
  const { code } = await ada.on(place).createInvite({ channel_id: channel!.id })
  await lin.on(place).joinByInvite({ invite_code: code })
  return { server, channel: channel!, ada, lin }
}
