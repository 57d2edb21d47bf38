import { z } from "zod"
import { Snowflake } from "./fields.ts"
import { defaultIntents, largestIntents } from "./intents.ts"
import { defineEvent } from "./registry.ts"

/** `d` of HELLO (op 10): milliseconds between two heartbeats. */
export const Hello = z.object({ heartbeat_interval: z.int().positive() })

const Properties = z.record(z.string(), z.unknown())

/** `d` of IDENTIFY (op 2). Unknown keys are ignored. */
export const Identify = z.object({
  token: z.string(),
  intents: z.int().min(0).max(largestIntents).default(defaultIntents),
  /**
   * `browser` or `$browser` stands for
   * the user agent.
   */
  properties: Properties.optional().catch(undefined),
  /**
   * Anything that counts as true: READY and all that follows are pieces of one zlib stream, a frame
   * each.
   */
  compress: z.unknown().optional(),
})

/** `d` of RESUME (op 6). */
export const Resume = z.object({
  token: z.string().min(1),
  /** As READY gave it. */
  session_id: z.string().regex(/^[0-9a-f]{32}$/),
  seq: z.int().nonnegative().default(0),
  /** As in IDENTIFY; what is no object is ignored. */
  properties: Properties.optional().catch(undefined),
  /** As in IDENTIFY, from RESUMED on; what the session had before does not matter. */
  compress: z.unknown().optional(),
})

/** `d` of TYPING_START (op 40) and TYPING_STOP (op 41). */
export const Typing = z.object({ channel_id: z.union([z.string(), z.int()]).transform(String).pipe(Snowflake) })

export const ready = defineEvent({
  name: "READY",
  intent: null,
  delivery: "ephemeral",
  summary: "The first event after IDENTIFY",
  data: z.object({
    v: z.literal(10),
    user: z.object({
      id: Snowflake,
      username: z.string(),
      discriminator: z.literal("0"),
      avatar: z.null(),
      avatar_url: z.string().nullable(),
      badges: z.array(z.string()),
      bot: z.boolean(),
    }),
    guilds: z.array(z.object({ id: Snowflake, name: z.string(), unavailable: z.boolean() })),
    session_id: z.string(),
    resume_gateway_url: z.string(),
    application: z.object({ id: Snowflake, flags: z.literal(0) }),
  }),
})

export const resumed = defineEvent({
  name: "RESUMED",
  intent: null,
  delivery: "ephemeral",
  summary: "The session continues and the missed events follow. `s` is the `seq` that the client sent",
  data: z.object({}),
})

export const sessionPosition = defineEvent({
  name: "SESSION_POSITION",
  intent: null,
  delivery: "ephemeral",
  summary:
    "Sent with the response to a heartbeat if no other event has raised `s` for 30 seconds, and after a resume on another worker, so that an idle session can be resumed",
  data: z.object({}),
})
