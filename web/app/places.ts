import type { Snowflake } from "../../client/contract.ts"
import { go, linkTo, place } from "../kit/router.ts"

/** What is shown beside the list of servers. */
export type Where =
  | { readonly view: "home" }
  | {
      readonly view: "server"
      readonly server: Snowflake
      readonly channel: Snowflake | undefined
      readonly message: Snowflake | undefined
    }
  | { readonly view: "direct"; readonly channel: Snowflake; readonly message: Snowflake | undefined }
  | { readonly view: "settings"; readonly part: string }
  | { readonly view: "addBot"; readonly bot: Snowflake }
  | {
      readonly view: "serverSettings"
      readonly server: Snowflake
      readonly part: string
      /** The one of the part's things that was chosen. */
      readonly item: string | undefined
    }

const isId = (text: string | undefined): text is Snowflake => text !== undefined && /^\d{1,20}$/.test(text)

/** Where the person is, from what stands behind the `#`. */
export function where(): Where {
  const [first, second, third, fourth, fifth] = place.value.path
  if (first === "servers" && isId(second)) {
    if (third === "settings") return { view: "serverSettings", server: second, part: fourth ?? "overview", item: fifth }
    return {
      view: "server",
      server: second,
      channel: isId(third) ? third : undefined,
      message: isId(fourth) ? fourth : undefined,
    }
  }
  if (first === "dms" && isId(second))
    return { view: "direct", channel: second, message: isId(third) ? third : undefined }
  if (first === "bots" && isId(second)) return { view: "addBot", bot: second }
  if (first === "settings") return { view: "settings", part: second ?? "account" }
  return { view: "home" }
}

type Target = {
  server?: Snowflake | null | undefined
  channel?: Snowflake | undefined
  message?: Snowflake | undefined
}

const pathTo = ({ server, channel, message }: Target): string[] => {
  const rest = [channel, message].filter(part => part !== undefined)
  return server === null || server === undefined ? ["dms", ...rest] : ["servers", server, ...rest]
}

export const linkToPlace = (target: Target): string => linkTo(pathTo(target))
export const goTo = (target: Target): void => go(pathTo(target))
