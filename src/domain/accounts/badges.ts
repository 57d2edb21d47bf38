import type { Badge } from "../../contract/accounts/features.ts"
import { limits } from "../../contract/core/limits.ts"

/** Badges that administrators give. */
export const badges: readonly Badge[] = [
  {
    name: "alpha_tester",
    display_name: "Alpha Tester",
    description: "Was here during the alpha",
    icon: "🧪",
    color: "#9333ea",
  },
  {
    name: "early_supporter",
    display_name: "Early Supporter",
    description: "Supported the service early on",
    icon: "💎",
    color: "#06b6d4",
  },
  { name: "staff", display_name: "Staff", description: "Works for the service", icon: "⚡", color: "#ef4444" },
  { name: "verified", display_name: "Verified", description: "Is who the name says", icon: "✓", color: "#22c55e" },
  {
    name: "bug_hunter",
    display_name: "Bug Hunter",
    description: "Found and reported bugs",
    icon: "🐛",
    color: "#84cc16",
  },
  {
    name: "contributor",
    display_name: "Contributor",
    description: "Contributed to the service",
    icon: "🔧",
    color: "#3b82f6",
  },
  { name: "moderator", display_name: "Moderator", description: "Keeps the peace", icon: "🛡️", color: "#8b5cf6" },
  { name: "partner", display_name: "Partner", description: "A partner of the service", icon: "🤝", color: "#ec4899" },
]

const known: ReadonlyMap<string, Badge> = new Map(badges.map(badge => [badge.name, badge]))

export const isBadge = (name: string): boolean => known.has(name)

/** What a badge looks like; one that is not given any more keeps its name. */
export const badgeOf = (name: string): Badge =>
  known.get(name) ?? { name, display_name: titleOf(name), description: "", icon: "🏷️", color: "#6b7280" }

const titleOf = (name: string): string =>
  name
    .split("_")
    .filter(word => word !== "")
    .map(word => word[0]!.toUpperCase() + word.slice(1))
    .join(" ")

/** Those that a user is shown with. */
export const shownBadges = (names: readonly string[]): string[] => names.slice(0, limits.badgesShown)
