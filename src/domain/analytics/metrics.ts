import { rounded } from "./comparison.ts";
import type { EffectSums } from "./measure-effects.ts";

/** What is measured of a range or a bucket. Parts that no metric needed are zero. */
export type Whole = {
  activity: { active: number; events: number };
  /** Active in the 7 and 30 days that end with it; mean daily active players, of it and of those 30 days. */
  windows: { wau: number; mau: number; dau: number; monthlyDau: number };
  newcomers: { fresh: number; total: number };
  returning: number;
  effects: Pick<EffectSums, "sums" | "currencies" | "senders">;
  quests: { started: number; completed: number };
};

/** Parts of a Whole, each of which takes a statement; `events` is counted with the activity. */
export type Part = "activity" | "events" | "windows" | "newcomers" | "effects" | "quests";

/** A metric: a number, or a rate from 0 to 1; null where there is nothing to divide by. */
export type Metric = {
  unit: "count" | "distinct" | "mean" | "rate";
  /** Whether more is better: for colours. */
  goodDirection: "up" | "down";
  /** What it is read from. */
  of: readonly Part[];
  read: (whole: Whole) => number | null;
};

const ratio = (part: number, of: number, decimals: number): number | null =>
  of === 0 ? null : rounded(part / of, decimals);

const metric =
  (unit: Metric["unit"]) =>
  (of: readonly Part[], read: Metric["read"]): Metric => ({ unit, goodDirection: "up", of, read });
const count = metric("count");
const distinct = metric("distinct");
const mean = metric("mean");
const rate = metric("rate");

const effect = (name: keyof EffectSums["sums"]): Metric =>
  count(["effects"], ({ effects }) => effects.sums[name]);

/** The metrics of an overview, in the order of its answer; the guide says what each means. */
export const METRICS = {
  activePlayers: distinct(["activity"], ({ activity }) => activity.active),
  newPlayers: count(["newcomers"], ({ newcomers }) => newcomers.fresh),
  returningPlayers: distinct(["activity", "newcomers"], ({ returning }) => returning),
  totalPlayers: distinct(["newcomers"], ({ newcomers }) => newcomers.total),
  events: count(["activity", "events"], ({ activity }) => activity.events),
  eventsPerActivePlayer: mean(["activity", "events"], ({ activity }) =>
    ratio(activity.events, activity.active, 4),
  ),
  avgDau: mean(["windows"], ({ windows }) => rounded(windows.dau, 4)),
  wau: distinct(["windows"], ({ windows }) => windows.wau),
  mau: distinct(["windows"], ({ windows }) => windows.mau),
  stickiness: rate(["windows"], ({ windows }) => ratio(windows.monthlyDau, windows.mau, 6)),
  xpGranted: effect("xpGranted"),
  levelUps: effect("levelUps"),
  badgesEarned: effect("badgesEarned"),
  questsStarted: effect("questsStarted"),
  questsCompleted: effect("questsCompleted"),
  questCompletionRate: rate(["quests"], ({ quests }) => ratio(quests.completed, quests.started, 6)),
  adventuresStarted: effect("adventuresStarted"),
  adventuresCompleted: effect("adventuresCompleted"),
  matches: effect("matches"),
  playersPerMatch: mean(["effects"], ({ effects: { sums } }) => ratio(sums.matchPlayers, sums.matches, 4)),
  messages: effect("messages"),
  messageSenders: distinct(["effects"], ({ effects }) => effects.senders),
  webhookSuccessRate: rate(["effects"], ({ effects: { sums } }) =>
    ratio(sums.webhooksDelivered, sums.webhooksDelivered + sums.webhooksFailed, 6),
  ),
} as const satisfies Record<string, Metric>;
export type MetricName = keyof typeof METRICS;
export const METRIC_NAMES = Object.keys(METRICS) as MetricName[];
