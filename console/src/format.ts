/** Numbers and times in the reader's language, and in the project's zone. */
let zone = "UTC";
export const setZone = (name: string): void => void (zone = name);
export const zoneName = (): string => zone;

const cache = new Map<string, Intl.DateTimeFormat>();
const formatter = (options: Intl.DateTimeFormatOptions, timeZone: string): Intl.DateTimeFormat => {
  const key = `${timeZone} ${JSON.stringify(options)}`;
  const known = cache.get(key) ?? new Intl.DateTimeFormat(undefined, { ...options, timeZone });
  cache.set(key, known);
  return known;
};

const numbers = new Intl.NumberFormat(undefined, { maximumFractionDigits: 2 });
const compacts = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });
const percents = new Intl.NumberFormat(undefined, { style: "percent", maximumFractionDigits: 1 });
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: "auto", style: "short" });

export const number = (value: number | null | undefined): string =>
  value == null ? "–" : numbers.format(value);
export const compact = (value: number | null | undefined): string =>
  value == null ? "–" : compacts.format(value);
export const percent = (value: number | null | undefined): string =>
  value == null ? "–" : percents.format(value);

/** A moment: date and time in the project's zone. */
export const moment = (iso: string | null | undefined): string =>
  iso == null ? "–" : formatter({ dateStyle: "medium", timeStyle: "medium" }, zone).format(new Date(iso));

export const time = (iso: string): string => formatter({ timeStyle: "medium" }, zone).format(new Date(iso));

/** A day of the API, which is text: its zone was applied by the server; or a time. Other text stays as it is. */
export const day = (date: string): string => {
  if (/^\d{4}-\d{2}-\d{2}T/.test(date))
    return formatter({ month: "short", day: "numeric", hour: "numeric" }, zone).format(new Date(date));
  if (!/^\d{4}-\d{2}-\d{2}$/.test(date)) return date;
  return formatter({ month: "short", day: "numeric" }, "UTC").format(new Date(`${date}T00:00:00Z`));
};

/** The name of a day's weekday. */
export const dayName = (date: string): string =>
  formatter({ weekday: "long" }, "UTC").format(new Date(`${date}T00:00:00Z`));

/** How many of what: 1 coin, 3 coins; of other words than English ones the number stands alone. */
export const count = (amount: number, what: string): string =>
  `${number(amount)} ${amount === 1 || amount === -1 ? what.replace(/([^s])s$/, "$1") : what}`;

type Person = { displayName?: string | null; externalUserId?: string | null; playerId?: string | null };

/** What to call a player. */
export const nameOf = (person: Person | null | undefined): string =>
  person?.displayName || person?.externalUserId || person?.playerId || "–";

const STEPS: [Intl.RelativeTimeFormatUnit, number][] = [
  ["second", 60],
  ["minute", 60],
  ["hour", 24],
  ["day", 30],
  ["month", 12],
];

export const ago = (iso: string | null | undefined, now = Date.now()): string => {
  if (iso == null) return "–";
  let amount = (new Date(iso).getTime() - now) / 1000;
  for (const [unit, size] of STEPS) {
    if (Math.abs(amount) < size) return relative.format(Math.round(amount), unit);
    amount /= size;
  }
  return relative.format(Math.round(amount), "year");
};

/** Seconds in words: 90 → 1 min 30 s. */
export const duration = (seconds: number): string => {
  const parts = [
    [Math.floor(seconds / 86_400), "d"],
    [Math.floor((seconds % 86_400) / 3600), "h"],
    [Math.floor((seconds % 3600) / 60), "min"],
    [Math.round(seconds % 60), "s"],
  ] as const;
  const shown = parts.filter(([amount]) => amount > 0).map(([amount, unit]) => `${amount} ${unit}`);
  return shown.slice(0, 2).join(" ") || "0 s";
};

export const bytes = (size: number): string => {
  const power = size < 1024 ? 0 : Math.min(4, Math.floor(Math.log(size) / Math.log(1024)));
  return `${numbers.format(size / 1024 ** power)} ${["B", "KiB", "MiB", "GiB", "TiB"][power]}`;
};

const WORDS: Record<string, string> = {
  eq: "is",
  neq: "is not",
  gt: "is more than",
  gte: "is at least",
  lt: "is less than",
  lte: "is at most",
  between: "is between",
  in: "is one of",
  notIn: "is none of",
  not_in: "is none of",
  contains: "contains",
  startsWith: "starts with",
  starts_with: "starts with",
  endsWith: "ends with",
  ends_with: "ends with",
  not_contains: "does not contain",
  contains_any: "contains one of",
  contains_all: "contains all of",
  glob: "looks like",
  within_last: "is within the last",
  older_than: "is older than",
  op: "Comparison",
  path: "Property",
  update_badge: "Badge: award, progress or revoke",
  update_quest: "Quest: start, advance, complete or reset",
  adjust_currency: "Currency: give or take",
  adjust_lives: "Lives: give or take",
  avgDau: "Active players a day",
  wau: "Active players in a week",
  mau: "Active players in a month",
  "7d": "7 days",
  "30d": "30 days",
  "90d": "90 days",
  mtd: "This month",
  qtd: "This quarter",
  ytd: "This year",
  "12mo": "12 months",
  compare: "Compared with",
  against: "Compared with",
  breakdown: "Broken down by",
  cumulative: "Added up",
  window: "Within",
  true: "Yes",
  false: "No",
  nday: "In the very period",
  exists: "is there",
  notExists: "is not there",
  not_exists: "is not there",
  all: "All of these",
  any: "Any of these",
  none: "None of these",
  xp: "XP",
  id: "ID",
  api: "API",
  url: "URL",
  sso: "SSO",
  ip: "IP",
};

/** Of its own: whoever writes a name, such as that of a currency, may write `constructor`. */
export const own = <T>(of: Record<string, T>, name: string): T | undefined =>
  Object.hasOwn(of, name) ? of[name] : undefined;

/** A name of the API in words: `externalUserId` → External user ID, `IN_PROGRESS` → In progress. */
export const words = (name: string): string => {
  const known = own(WORDS, name);
  if (known !== undefined) return known;
  const text = name
    .replace(/([a-z0-9])([A-Z])/g, "$1 $2")
    .replace(/[_.-]+/g, " ")
    .toLowerCase()
    .replace(/\b(xp|id|ids|url|api|sso|oidc|saml|ip|csv|json|smtp|utc|mfa)\b/g, (word) =>
      word.toUpperCase().replace("IDS", "IDs"),
    )
    .trim();
  return text.charAt(0).toUpperCase() + text.slice(1);
};

/** A key as one would write it for a name: “Three stars!” → three-stars. */
export const keyFor = (name = ""): string =>
  name
    .normalize("NFD")
    .replace(/\p{M}/gu, "")
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .slice(0, 64)
    .replace(/^-|-$/g, "");
