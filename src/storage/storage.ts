import { bansStorage } from "./bans.ts"
import { channelsStorage } from "./channels.ts"
import { bounded, openPool, type PoolOptions } from "./database.ts"
import { invitesStorage } from "./invites.ts"
import { Lane } from "./lanes.ts"
import { messagesStorage } from "./messages.ts"
import { migrationsStorage } from "./migrate.ts"
import { placementStorage } from "./placement.ts"
import { serversStorage } from "./servers.ts"
import { sessionsStorage } from "./sessions.ts"
import { tellsStorage } from "./tells.ts"
import { usersStorage } from "./users.ts"

export type StorageOptions = Omit<PoolOptions, "connections"> & { readConnections: number }

/** Everything kept in PostgreSQL: one pool of plain statements, and lanes for what turns write. */
export function openStorage(options: StorageOptions) {
  const sql = openPool({ ...options, connections: options.readConnections })
  return {
    users: bounded(usersStorage(sql), options.statementTimeout),
    sessions: bounded(sessionsStorage(sql), options.statementTimeout),
    servers: bounded(serversStorage(sql), options.statementTimeout),
    bans: bounded(bansStorage(sql), options.statementTimeout),
    channels: bounded(channelsStorage(sql), options.statementTimeout),
    invites: bounded(invitesStorage(sql), options.statementTimeout),
    messages: bounded(messagesStorage(sql), options.statementTimeout),
    placement: bounded(placementStorage(sql), options.statementTimeout),
    migrations: bounded(migrationsStorage(sql), options.statementTimeout),
    tells: bounded(tellsStorage(sql), options.statementTimeout),
    openLane: (incarnation: string, lane: number, generation: number) =>
      new Lane({ ...options, connections: 1, incarnation, lane, generation, name: `${options.name} lane ${lane}` }),
    close: () => sql.end({ timeout: 1 }),
  }
}

export type Storage = ReturnType<typeof openStorage>
