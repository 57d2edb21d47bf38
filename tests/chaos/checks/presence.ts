import type { Check } from "../history.ts"

/**
 * P14: when all is well again, everybody looks as they are: to all who ask, on any worker, and to
 * those who were told. Nobody is online whose connection was lost a resume window ago, whatever became of
 * the worker that had it.
 */
export const presence: Check = history =>
  history.flatMap(entry =>
    entry.type === "presences"
      ? entry.views.flatMap(({ by, client, truth, found }) =>
          truth === found
            ? []
            : [
                {
                  promise: "P14",
                  what: `${client} is ${truth}, and the observer ${by === "told" ? "was told" : "found"} ${found || "nothing"}`,
                  at: entry.at,
                },
              ],
        )
      : [],
  )
