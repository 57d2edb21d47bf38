/** What is seldom asked for: loaded as one file, when somebody first asks for any of it. */
export { AddBot } from "./add-bot.tsx"
export { MemberCard } from "./member-card.tsx"
export { MuteChoice } from "./mute-choice.tsx"
export { OwnStatus } from "./own-status.tsx"
export { PollMaker } from "./poll-maker.tsx"
export { Report } from "./report.tsx"
export { Bots } from "./settings/bots.tsx"
