/** The ones that people take most, with the words by which they are found; each is a text to translate. */
export const emojis: readonly (readonly [emoji: string, words: string])[] = [
  ["👍", "thumbs up yes like"], ["👎", "thumbs down no"], ["❤️", "heart love"], ["😂", "joy laugh"], ["😊", "smile blush"], ["😍", "heart eyes love"],
  ["😮", "open mouth wow"], ["😢", "cry sad"], ["😡", "angry rage"], ["🎉", "tada party"], ["🔥", "fire"], ["👀", "eyes look"],
  ["🙏", "pray thanks please"], ["💯", "hundred"], ["✅", "check done yes"], ["❌", "cross no"], ["🚀", "rocket"], ["🤔", "thinking"],
  ["😅", "sweat smile"], ["🙂", "slight smile"], ["😉", "wink"], ["😎", "sunglasses cool"], ["🤣", "rofl laugh"], ["😭", "sob cry"],
  ["😱", "scream"], ["🥳", "party face"], ["😴", "sleeping"], ["🤷", "shrug"], ["🙌", "raised hands"], ["👏", "clap"],
  ["💪", "muscle strong"], ["👋", "wave hello bye"], ["🤝", "handshake"], ["👌", "ok"], ["✨", "sparkles"], ["⭐", "star"],
  ["🐛", "bug"], ["🐦", "bird starling"], ["☕", "coffee"], ["🍕", "pizza"], ["🎂", "cake birthday"], ["⚠️", "warning"],
] // prettier-ignore
