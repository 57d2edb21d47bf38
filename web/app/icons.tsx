/** Drawn here: fonts of many systems lack such signs. Each is 24 by 24, of one line. */
const paths = {
  search: "M10.5 4a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13zM15.5 15.5 20 20",
  smile: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM8.5 14.5c1.8 2.3 5.2 2.3 7 0M9 9.5h.01M15 9.5h.01",
  sticker: "M5 4h14v9l-7 7H5zM19 13h-7v7M9 9h.01M14 9h.01M8.500 12.500c1 .8 2 1 3 .8",
  reply: "M10 6 4 12l6 6M4 12h10a6 6 0 0 1 6 6",
  edit: "M4 20h4L19 9l-4-4L4 16zM13 7l4 4",
  pin: "M9 3h6M10 3v6l-3 4h10l-3-4V3M12 13v8",
  bin: "M4 6h16M9 6V4h6v2M6 6l1 14h10l1-14M10 10v6M14 10v6",
  flag: "M5 21V4M5 4h13l-3 4 3 4H5",
  bell: "M6 16V11a6 6 0 0 1 12 0v5l2 2H4zM10 20.500h4",
  silent: "M6 16V11a6 6 0 0 1 12 0v5l2 2H4zM10 20.500h4M4 4l16 16",
  poll: "M5 20V10M12 20V4M19 20v-7",
  gear: "M12 9a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM12 2v4M12 18v4M2 12h4M18 12h4M5 5l3 3M16 16l3 3M19 5l-3 3M8 16l-3 3",
  plus: "M12 5v14M5 12h14",
  menu: "M4 6h16M4 12h16M4 18h16",
  mail: "M3 6h18v12H3zM3 7l9 7 9-7",
  people:
    "M9 5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7zM3 20c0-4 3-6 6-6s6 2 6 6M16 5.5a3 3 0 0 1 0 6M17 14c2.500.500 4 2.500 4 6",
  note: "M5 4h14v16H5zM8 9h8M8 13h8M8 17h4",
  microphone:
    "M12 4a2.500 2.500 0 0 0-2.500 2.500v5a2.500 2.500 0 0 0 5 0v-5A2.500 2.500 0 0 0 12 4zM6.500 11a5.500 5.500 0 0 0 11 0M12 16.500V20",
  muted:
    "M12 4a2.500 2.500 0 0 0-2.500 2.500v5a2.500 2.500 0 0 0 5 0v-5A2.500 2.500 0 0 0 12 4zM6.500 11a5.500 5.500 0 0 0 11 0M12 16.500V20M4 4l16 16",
  headphones: "M4 14v-2a8 8 0 0 1 16 0v2M4 14h3v6H4zM17 14h3v6h-3z",
  deaf: "M4 14v-2a8 8 0 0 1 16 0v2M4 14h3v6H4zM17 14h3v6h-3zM4 4l16 16",
  sound: "M4 10v4h4l5 4V6L8 10zM16.500 9c1.500 2 1.500 4 0 6M19 7c3 3 3 7 0 10",
} as const

export const Icon = ({ name }: { name: keyof typeof paths }) => (
  <svg class="icon" viewBox="0 0 24 24" width="18" height="18" aria-hidden="true">
    <path
      d={paths[name]}
      fill="none"
      stroke="currentColor"
      stroke-width="1.8"
      stroke-linecap="round"
      stroke-linejoin="round"
    />
  </svg>
)
