import { z } from "zod";
import {
  CALENDAR_UNITS,
  type Calendar,
  type CalendarProject,
  type CalendarUnit,
  calendarOf,
  windowNumber,
} from "../../kernel/zones.ts";
import { toSafe } from "../language/syntax.ts";

/** Maximum caps of a rule, and of a project. */
export const CAPS_MAX = 10;

/** The most of XP or of a currency that rules give a player in a window. */
export const Cap = z.strictObject({
  asset: z
    .string()
    .regex(/^(xp|currency:[a-z0-9][a-z0-9_-]{0,63})$/, "must be xp or currency:<key>")
    .meta({ description: "xp or currency:{key}" }),
  max: z.int().min(1).max(Number.MAX_SAFE_INTEGER),
  window: z
    .enum(["LIFETIME", ...CALENDAR_UNITS], { error: "must be LIFETIME, DAY, WEEK or MONTH" })
    .meta({ description: "Days, weeks and months of the player's time zone" }),
  counts: z.enum(["GAINS", "NET"]).default("GAINS").meta({
    description: "GAINS: what is given. NET: also what is taken away, which makes room again",
  }),
});
export type Cap = z.output<typeof Cap>;

/** Caps with the name under which a player's amounts are kept: the id of a rule, or PROJECT_SCOPE. */
export type CapSet = { scope: string; caps: readonly Cap[] };

export const PROJECT_SCOPE = "*";

/** Windows that are kept of a cap or a limit: for an older event nothing is given any more, and no rule fires. */
export const WINDOWS_KEPT = 8;

/** An amount of a lifetime, or amounts by number of the window, ascending. */
export type Amounts = number | readonly Amount[];
export type Amount = readonly [window: number, amount: number];

/** Amounts of one scope, by `nameOf` the cap. */
export type ScopeAmounts = Readonly<Record<string, Amounts>>;

/** Caps of one name share their amounts, whatever their maximum. */
export const nameOf = ({ asset, window, counts }: Cap): string =>
  `${asset} ${window}${counts === "NET" ? " NET" : ""}`;

/** The event's time and the calendar of the player. */
export type CapMoment = { at: number; calendar: Calendar };

type Owner = {
  player: { timezone: string | null };
  project: CalendarProject;
  event: { at: number };
};
export const capMoment = ({ player, project, event }: Owner): CapMoment => ({
  at: event.at,
  calendar: calendarOf(project, player.timezone),
});

const unitOf = ({ window }: Cap): CalendarUnit | undefined => CALENDAR_UNITS.find((unit) => unit === window);

const windowsOf = (amounts: Amounts | undefined): readonly Amount[] =>
  typeof amounts === "object" ? amounts : [];

/** Returns what a cap has counted in the window of a moment; undefined where that is no longer known. */
export const countedIn = (cap: Cap, amounts: Amounts | undefined, moment: CapMoment): number | undefined => {
  const unit = unitOf(cap);
  if (unit === undefined) return typeof amounts === "number" ? amounts : 0;
  return amountIn(windowsOf(amounts), windowNumber(unit, moment.calendar, moment.at));
};

/** Returns the amount of a window; undefined for one that is older than those that are kept. */
export const amountIn = (windows: readonly Amount[], number: number): number | undefined => {
  const found = windows.find(([window]) => window === number);
  if (found) return found[1];
  return windows.length === WINDOWS_KEPT && number < windows[0]![0] ? undefined : 0;
};

/** Returns what a cap counts of a change: losses only where it counts NET. */
export const countOf = ({ counts }: Cap, change: number): number =>
  counts === "NET" ? change : Math.max(0, change);

/** Adds to the window of a moment. */
export const addAmount = (
  cap: Cap,
  amounts: Amounts | undefined,
  { change, moment }: { change: number; moment: CapMoment },
): Amounts => {
  const unit = unitOf(cap);
  if (unit === undefined) return toSafe((typeof amounts === "number" ? amounts : 0) + change);
  return addToWindow(windowsOf(amounts), windowNumber(unit, moment.calendar, moment.at), change);
};

/** Adds to the amount of a window; of too many windows the earliest are dropped. */
export const addToWindow = (
  windows: readonly Amount[],
  number: number,
  change: number,
): readonly Amount[] => {
  const known = windows.find(([window]) => window === number);
  const others = windows.filter(([window]) => window !== number);
  return [...others, [number, toSafe((known?.[1] ?? 0) + change)] as const]
    .toSorted(([a], [b]) => a - b)
    .slice(-WINDOWS_KEPT);
};

/**
 * Takes a change back from the window of its moment, if that is still kept. A window that counts nothing is
 * kept: forgetting it would make an older one unknown, or known again.
 */
export const takeAmount = (
  cap: Cap,
  amounts: Amounts | undefined,
  { change, moment }: { change: number; moment: CapMoment },
): Amounts | undefined => {
  if (amounts === undefined) return undefined;
  const unit = unitOf(cap);
  const number = unit && windowNumber(unit, moment.calendar, moment.at);
  const isKept = number === undefined || windowsOf(amounts).some(([window]) => window === number);
  if (!isKept) return amounts;
  const taken = addAmount(cap, amounts, { change: -change, moment });
  return cap.counts === "NET" ? taken : notNegative(taken);
};

const notNegative = (amounts: Amounts): Amounts =>
  typeof amounts === "number"
    ? Math.max(0, amounts)
    : amounts.map(([window, amount]): Amount => [window, Math.max(0, amount)]);

const mergeAmounts = (mine: Amounts | undefined, theirs: Amounts): Amounts => {
  if (mine === undefined) return theirs;
  if (typeof mine === "number" || typeof theirs === "number") return toSafe(Number(mine) + Number(theirs));
  return addWindows(mine, theirs);
};

/** Adds the amounts of two players. */
export const addWindows = (mine: readonly Amount[], theirs: readonly Amount[]): readonly Amount[] =>
  theirs.reduce((sum, [number, amount]) => addToWindow(sum, number, amount), mine);

/** Merges what caps have counted for two players, so that a merge never makes room. */
export const mergeScopes = (
  mine: Readonly<Record<string, ScopeAmounts>>,
  theirs: Readonly<Record<string, ScopeAmounts>>,
): Record<string, ScopeAmounts> => {
  const merged = { ...mine };
  for (const [scope, amounts] of Object.entries(theirs)) {
    const own: Record<string, Amounts> = { ...mine[scope] };
    for (const [name, amount] of Object.entries(amounts)) own[name] = mergeAmounts(own[name], amount);
    merged[scope] = own;
  }
  return merged;
};
