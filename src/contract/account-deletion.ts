import { z } from "zod"
import { omittable, Success } from "./fields.ts"
import { defineRoute } from "./registry.ts"

export const deleteAccount = defineRoute({
  method: "DELETE",
  path: "/users/@me",
  summary:
    "Schedule the caller's account for deletion: nobody can use it any longer, and after some days what is his alone is erased",
  tag: "Users",
  auth: "person",
  body: z
    .object({
      password: omittable(z.string().max(1024)).describe(
        "Required of an account that has a password; one without signs in anew, no more than ten minutes before",
      ),
      code: omittable(z.string().max(64)).describe(
        "Of the second factor, or a backup code; required where one is set up",
      ),
    })
    .meta({ id: "AccountDeletion" }),
  bodyOptional: true,
  reply: Success,
  fails: [
    "password_required",
    "wrong_password",
    "fresh_sign_in_required",
    "second_factor_code_required",
    "wrong_code",
    "account_locked",
    "owns_servers",
  ],
})

export const routes = { deleteAccount }
