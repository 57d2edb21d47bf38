import { z } from "zod"
import { sample } from "../core/examples.ts"
import { Success } from "../core/fields.ts"
import { identityFailures, identityProof } from "./identity-proof.ts"
import { defineRoute } from "../core/registry.ts"

export const deleteAccount = defineRoute({
  method: "DELETE",
  path: "/users/@me",
  summary:
    "Schedule the caller's account for deletion. Nobody can use the account from now on. After some days the data that belongs only to the caller is erased",
  tag: "Users",
  auth: "person",
  body: z.object(identityProof).meta({ id: "AccountDeletion" }),
  bodyOptional: true,
  example: { password: sample.password },
  reply: Success,
  fails: [...identityFailures, "owns_servers"],
})

export const routes = { deleteAccount }
