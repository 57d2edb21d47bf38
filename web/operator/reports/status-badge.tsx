import { Badge, type Tone } from "../../kit/states.tsx"

const tones: Readonly<Record<string, Tone>> = { pending: "warm", actioned: "bad", blocked: "bad", cleared: "good" }

export const StatusBadge = ({ status }: { status: string }) => <Badge tone={tones[status] ?? "plain"}>{status}</Badge>
