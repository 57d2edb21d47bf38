import { correction, generate } from "lean-qr"

/** A code for a camera. It is drawn here: what it says may be a secret, and stands in no address. */
export function QrCode({ text, says }: { text: string; says: string }) {
  const code = generate(text, { minCorrectionLevel: correction.M })
  let path = ""
  for (let y = 0; y < code.size; y++)
    for (let x = 0; x < code.size; x++) if (code.get(x, y)) path += `M${x} ${y}h1v1h-1z`
  const quiet = 4
  const side = code.size + 2 * quiet
  return (
    <svg
      class="qr"
      role="img"
      aria-label={says}
      viewBox={`${-quiet} ${-quiet} ${side} ${side}`}
      shape-rendering="crispEdges"
    >
      <rect x={-quiet} y={-quiet} width={side} height={side} fill="#fff" />
      <path d={path} fill="#000" />
    </svg>
  )
}
