/** Icons of the navigation, drawn here: a package of them weighs more than all the rest. */
const PATHS = {
  start: "M5 12l5 5L20 7",
  overview: "M4 20V10M10 20V4M16 20v-7M22 20H2",
  live: "M3 12h4l3 8 4-16 3 8h4",
  players: "M12 12a4 4 0 100-8 4 4 0 000 8zM4 21c0-4 4-6 8-6s8 2 8 6",
  rules: "M6 3v12M18 9v12M6 15a3 3 0 100 6 3 3 0 000-6zM18 3a3 3 0 100 6 3 3 0 000-6zM6 9c0 6 12 0 12 6",
  economy: "M12 3a9 9 0 100 18 9 9 0 000-18zM12 7v10M9 9.5h4.5a1.8 1.8 0 010 3.5H10a1.8 1.8 0 000 3.5h5",
  quests: "M5 21V4h12l-2 4 2 4H5",
  adventures: "M3 6l6-3 6 3 6-3v15l-6 3-6-3-6 3zM9 3v15M15 6v15",
  boards: "M8 21h8M12 17v4M7 4h10v5a5 5 0 01-10 0zM7 5H4c0 4 1 5 3 5M17 5h3c0 4-1 5-3 5",
  lobbies:
    "M9 11a3 3 0 100-6 3 3 0 000 6zM16 12a2.500 2.500 0 100-5M3 20c0-4 3-5 6-5s6 1 6 5M17 15c3 0 4 2 4 5",
  chat: "M4 5h16v11H9l-5 4z",
  analytics: "M12 3a9 9 0 109 9h-9zM15 3a8 8 0 016 6h-6z",
  webhooks: "M10 13a4 4 0 006 .5l3-3a4 4 0 00-6-6l-1 1M14 11a4 4 0 00-6-.5l-3 3a4 4 0 006 6l1-1",
  keys: "M14 10a5 5 0 10-3 3l2 2h2v2h2v2h4v-3z",
  team: "M12 12a4 4 0 100-8 4 4 0 000 8zM4 21c0-4 4-6 8-6s8 2 8 6M19 4v6M16 7h6",
  settings: "M4 7h10M18 7h2M4 17h2M10 17h10M16 9a2 2 0 100-4 2 2 0 000 4zM8 19a2 2 0 100-4 2 2 0 000 4z",
  audit: "M6 3h9l4 4v14H6zM9 12h7M9 16h7M9 8h3",
  search: "M11 4a7 7 0 100 14 7 7 0 000-14zM16 16l5 5",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  plus: "M12 5v14M5 12h14",
  trash: "M4 7h16M9 7V4h6v3M6 7l1 14h10l1-14",
  file: "M12 4v12M7 11l5 5 5-5M4 20h16",
} as const;

export type IconName = keyof typeof PATHS;

export const Icon = ({ name, size = 18 }: { name: IconName; size?: number }) => (
  <svg
    width={size}
    height={size}
    viewBox="0 0 24 24"
    fill="none"
    stroke="currentColor"
    strokeWidth={1.8}
    strokeLinecap="round"
    strokeLinejoin="round"
    aria-hidden
  >
    <path d={PATHS[name]} />
  </svg>
);
