/** By which this machine reaches what listens there: an address that stands for all of them is that of a loopback. */
export function urlHere(host: string, port: number): string {
  const name = host === "0.0.0.0" || host === "::" ? "127.0.0.1" : host
  return `http://${name.includes(":") ? `[${name}]` : name}:${port}`
}
