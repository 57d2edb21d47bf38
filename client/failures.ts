/** What the network says of a lost connection. Several failures in one have a code and no words. */
export function textOf(error: Error & { readonly code?: unknown }): string {
  if (error.message !== "") return error.message
  return typeof error.code === "string" ? error.code : error.name
}
