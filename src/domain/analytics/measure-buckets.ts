import { sql } from "kysely";
import { eachActivePlayer, eachFirstTime } from "./active-players.ts";
import { rounded } from "./comparison.ts";
import {
  countAtMost,
  type Effect,
  EFFECTS,
  effectsOf,
  GAINS,
  instant,
  periodAt,
  within,
  withIndexes,
} from "./events.ts";
import { MONTH_DAYS, WEEK_DAYS } from "./measure-players.ts";
import { bucketOf, type Buckets, dayBuckets, type Frame, localDay, type Range, untilAsOf } from "./range.ts";
import { daysUntil } from "./rollups/closed-days.ts";
import { countDays, countPlayers, type Days, type Span } from "./rollups/day-sums.ts";
import { sumRolledGains } from "./rollups/players.ts";
import type { Work } from "../kernel/work.ts";

/** What is measured of a range or a bucket. Parts that no metric needed are zero. */
export type Whole = {
  activity: { active: number; events: number };
  /** Active in the 7 and 30 days that end with it; mean daily active players, of it and of those 30 days. */
  windows: { wau: number; mau: number; dau: number; monthlyDau: number };
  newcomers: { fresh: number; total: number };
  returning: number;
  effects: {
    sums: Record<Effect, number>;
    /** Of currencyGranted, by key of the currency. */
    currencies: Record<string, number>;
    /** Players who sent messages. */
    senders: number;
  };
  quests: { started: number; completed: number };
};

/** Parts of a Whole, each of which takes a statement at most; `events` is counted with the activity. */
export type Part = "activity" | "events" | "windows" | "newcomers" | "effects" | "quests";

/** A metric: a number, or a rate from 0 to 1; null where there is nothing to divide by. */
type Metric = {
  unit: "count" | "distinct" | "mean" | "rate";
  /** Whether more is better: for colours. */
  goodDirection: "up" | "down";
  /** What it is read from. */
  of: readonly Part[];
  read: (whole: Whole) => number | null;
};

const ratio = (part: number, of: number, decimals: number): number | null =>
  of === 0 ? null : rounded(part / of, decimals);

const metricOf =
  (unit: Metric["unit"]) =>
  (of: readonly Part[], read: Metric["read"]): Metric => ({ unit, goodDirection: "up", of, read });
const count = metricOf("count");
const distinct = metricOf("distinct");
const mean = metricOf("mean");
const rate = metricOf("rate");

const effect = (name: Effect): Metric => count(["effects"], ({ effects }) => effects.sums[name]);

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
  leaderboardsClosed: effect("leaderboardsClosed"),
  leaderboardPlaces: effect("leaderboardPlaces"),
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

type Measuring = {
  work: Work;
  frame: Frame;
  range: Range;
  buckets: Buckets;
  /** The first bucket of each part of the range that is measured as a whole, too; absent: of all of it. */
  parts?: readonly number[];
};

const zero = (): Whole => ({
  activity: { active: 0, events: 0 },
  windows: { wau: 0, mau: 0, dau: 0, monthlyDau: 0 },
  newcomers: { fresh: 0, total: 0 },
  returning: 0,
  effects: {
    sums: Object.fromEntries(EFFECTS.map((name) => [name, 0])) as never,
    currencies: {},
    senders: 0,
  },
  quests: { started: 0, completed: 0 },
});

/** What is measured: by bucket, and of each part of the range; players, of all of it as the first part. */
type Measured = { wholes: Whole[]; totals: Whole[] };
type Add = (measuring: Measuring, measured: Measured, needs: ReadonlySet<Part>) => Promise<void>;

const addActivity: Add = async ({ work, frame, range, buckets }, { wholes, totals }, needs) => {
  const total = totals[0]!;
  const spans = wholeDays(frame, buckets);
  const untilMs = untilAsOf(frame, range).endMs;
  const days = spans && (await daysUntil(work, frame, untilMs));
  if (days) {
    for (const [i, span] of spans.entries()) wholes[i]!.activity = countDays(days, span);
    total.activity = countDays(days, { first: spans[0]!.first, last: spans.at(-1)!.last });
    return;
  }
  const areCounted = needs.has("events");
  const question = { cutsMs: buckets.startsMs, untilMs, areCounted, isOfActive: true };
  const [active, events] = [wholes.map(() => 0), wholes.map(() => 0)];
  await eachActivePlayer(work, frame, question, ({ size, stretches: those, counts }) => {
    if (size > 0) total.activity.active++;
    for (let i = 0; i < size; i++) {
      active[those[i]!]! += 1;
      if (areCounted) events[those[i]!]! += counts[i]!;
    }
  });
  for (const [i, { activity }] of wholes.entries()) {
    activity.active = active[i]!;
    activity.events = events[i]!;
    total.activity.events += events[i]!;
  }
};

/** The local days of each bucket, as numbers. */
const daysOfBuckets = (frame: Frame, { startsMs, endMs }: Buckets): Span[] =>
  startsMs.map((start, i) => ({
    first: localDay(frame, start),
    last: localDay(frame, (startsMs[i + 1] ?? endMs) - 1),
  }));

/** The days of buckets that begin with them; undefined where one begins within a day. */
const wholeDays = (frame: Frame, buckets: Buckets): Span[] | undefined => {
  const spans = daysOfBuckets(frame, buckets);
  const starts = new Set(dayBuckets(frame, spans[0]!.first, spans.at(-1)!.last).startsMs);
  return buckets.startsMs.every((start) => starts.has(start)) ? spans : undefined;
};

/** Players who were active on a day, and before that on the day `last`. */
type Active = { day: number; last: number; players: number };
type TakeActive = (active: Active) => void;

/** Counts active players by day, and by the week and the month that end with each. */
const countWindows = async (days: number, each: (take: TakeActive) => Promise<void> | void) => {
  // By day: the active ones of the days before it; and how many more, or fewer, the windows have than before.
  const before = new Float64Array(days + 1);
  const [week, month] = [new Int32Array(days + 1), new Int32Array(days + 1)];
  const addWindow = (changes: Int32Array, length: number, { day, last, players }: Active): void => {
    // A window that began with the active day before goes on.
    changes[Math.min(days, Math.max(day, last + length))]! += players;
    changes[Math.min(days, day + length)]! -= players;
  };
  await each((active) => {
    before[active.day + 1]! += active.players;
    addWindow(week, WEEK_DAYS, active);
    addWindow(month, MONTH_DAYS, active);
  });
  for (let day = 1; day <= days; day++) {
    before[day]! += before[day - 1]!;
    week[day]! += week[day - 1]!;
    month[day]! += month[day - 1]!;
  }
  return {
    week,
    month,
    activeWithin: (first: number, last: number): number => before[last + 1]! - before[Math.max(0, first)]!,
  };
};

const eachGap = (days: Days, { first, last }: Span, take: TakeActive): void => {
  for (const [number, sums] of days) {
    if (number < first || number > last) continue;
    const day = number - first;
    take({ day, last: -Infinity, players: sums.fresh });
    for (const [before, players] of sums.gaps)
      take({ day, last: before < first ? -Infinity : before - first, players });
  }
};

/** Players of the days that end with each bucket. Days that are not over count as far as they have come. */
const addWindows: Add = async ({ work, frame, range, buckets }, measured) => {
  const ofBuckets = daysOfBuckets(frame, buckets);
  const spans = [...ofBuckets, { first: ofBuckets[0]!.first, last: ofBuckets.at(-1)!.last }];
  const wholes = [...measured.wholes, measured.totals[0]!];
  const firstDay = Math.min(range.firstDay, spans[0]!.last - MONTH_DAYS + 1);
  const days = dayBuckets(frame, firstDay, range.lastDay);
  const untilMs = untilAsOf(frame, range).endMs;
  const closed = await daysUntil(work, frame, untilMs);
  const question = { cutsMs: days.startsMs, untilMs, areCounted: false, isOfActive: true };
  const counts = await countWindows(days.startsMs.length, (take) =>
    closed
      ? eachGap(closed, { first: firstDay, last: range.lastDay }, take)
      : eachActivePlayer(work, frame, question, ({ size, stretches: those }) => {
          for (let i = 0; i < size; i++)
            take({ day: those[i]!, last: i === 0 ? -Infinity : those[i - 1]!, players: 1 });
        }),
  );
  for (const [i, { first, last }] of spans.entries()) {
    const [f, l] = [first - firstDay, last - firstDay];
    wholes[i]!.windows = {
      wau: counts.week[l]!,
      mau: counts.month[l]!,
      dau: counts.activeWithin(f, l) / (l - f + 1),
      monthlyDau: counts.activeWithin(l - MONTH_DAYS + 1, l) / MONTH_DAYS,
    };
  }
};

/** Buckets, and the instant before which first events are of interest. */
type Until = { buckets: Buckets; endMs: number };

/** Players whose first event ever was before all buckets, and in each. */
type Newcomers = { before: number; fresh: number[] };

const newcomersOfDays = async (
  work: Work,
  frame: Frame,
  { buckets, endMs }: Until,
): Promise<Newcomers | undefined> => {
  const spans = wholeDays(frame, buckets);
  const days = spans && (await daysUntil(work, frame, endMs));
  if (!days) return undefined;
  const fresh = spans.map((span) => countDays(days, span).fresh);
  return { before: countPlayers(days, spans[0]!.first - 1), fresh };
};

/** Measures the new players by bucket, of several ranges at once. */
export const measureNewcomers = async (
  work: Work,
  frame: Frame,
  asked: readonly Until[],
): Promise<Newcomers[]> => {
  const closed = await Promise.all(asked.map((one) => newcomersOfDays(work, frame, one)));
  if (closed.every((one) => one !== undefined)) return closed;
  const found = asked.map(({ buckets }): Newcomers => ({ before: 0, fresh: buckets.startsMs.map(() => 0) }));
  await eachFirstTime(work, frame, (ms) => {
    for (let i = 0; i < asked.length; i++) {
      const { buckets, endMs } = asked[i]!;
      if (ms >= endMs) continue;
      const bucket = periodAt(buckets, ms);
      if (bucket < 0) found[i]!.before++;
      else found[i]!.fresh[bucket]! += 1;
    }
  });
  return found;
};

const addNewcomers: Add = async ({ work, frame, range, buckets }, { wholes, totals }) => {
  const { endMs } = untilAsOf(frame, range);
  const [found] = await measureNewcomers(work, frame, [{ buckets, endMs }]);
  let players = found!.before;
  for (const [i, fresh] of found!.fresh.entries()) {
    players += fresh;
    wholes[i]!.newcomers = { fresh, total: players };
  }
  totals[0]!.newcomers = { fresh: players - found!.before, total: players };
};

const addEffects: Add = async ({ work, frame, range, buckets, parts = [0] }, { wholes, totals }) => {
  const { startMs, endMs } = untilAsOf(frame, range);
  // From rollups, where there are such; the others, or all, from where they are stored.
  const gains = await sumRolledGains(work, frame, { cutsMs: buckets.startsMs, untilMs: endMs });
  const rolledUp: readonly Effect[] = gains ? GAINS : [];
  const others = EFFECTS.filter((name) => !rolledUp.includes(name));
  const effects = effectsOf(frame, others, { fromMs: startMs, untilMs: endMs });
  type Row = { metric: Effect; key: string; d: number | null; part: number; amount: number; players: number };
  const query = sql<Row>`
    select metric, key, d, part, sum(amount) as amount,
      count(distinct player_id) filter (where metric = 'messages') as players
    from (
      select *, width_bucket(d, ${`{${parts.join(",")}}`}::int[]) - 1 as part from (
        select metric, case when metric = 'currencyGranted' then key else '' end as key, player_id, amount,
          ${bucketOf(buckets, sql`at`)} as d
        from (${effects}) x) e) e
    group by grouping sets ((metric, key, d), (metric, key, part))`;
  const { rows } = await withIndexes(work, () => query.execute(work.db));
  const add = (
    { effects: { sums, currencies } }: Whole,
    { metric, key, amount }: { metric: Effect; key: string; amount: number },
  ) => {
    sums[metric] += amount;
    if (metric === "currencyGranted" && amount !== 0) currencies[key] = (currencies[key] ?? 0) + amount;
  };
  for (const { d, part, players, ...row } of rows) {
    const whole = d === null ? totals[part]! : wholes[d]!;
    add(whole, row);
    if (row.metric === "messages") whole.effects.senders = players;
  }
  for (const { metric, key, sums } of gains ?? [])
    for (const [d, amount] of sums.entries())
      for (const whole of [wholes[d]!, totals[countAtMost(parts, d) - 1]!])
        add(whole, { metric, key, amount });
};

/** Counts the quests that were started, and how many of those were completed by `asOf`. */
const addQuests: Add = async ({ work, frame, range, buckets, parts = [0] }, { wholes, totals }) => {
  const { startMs, endMs } = untilAsOf(frame, range);
  const { rows } = await sql<{ d: number; started: number; completed: number }>`
    select ${bucketOf(buckets, sql`started_at`)} as d, count(*) as started,
      count(*) filter (where completed_at < ${instant(frame.asOfMs)}) as completed
    from player_quests where project_id = ${frame.projectId}::uuid
      and ${within("started_at", { fromMs: startMs, untilMs: endMs })} group by 1`.execute(work.db);
  for (const { d, started, completed } of rows)
    for (const { quests } of [wholes[d]!, totals[countAtMost(parts, d) - 1]!]) {
      quests.started += started;
      quests.completed += completed;
    }
};

const ADD: Readonly<Record<Part, Add>> = {
  activity: addActivity,
  events: async () => undefined,
  windows: addWindows,
  newcomers: addNewcomers,
  effects: addEffects,
  quests: addQuests,
};

/**
 * Measures parts of each bucket of a range, and of the range: a few statements for each, however many.
 * @param measuring the first bucket begins with the range
 */
export const measureBuckets = async (measuring: Measuring, needs: ReadonlySet<Part>): Promise<Measured> => {
  const { buckets, parts = [0] } = measuring;
  const measured: Measured = { wholes: buckets.startsMs.map(zero), totals: parts.map(zero) };
  // A range that was not begun has no bucket, and nothing has happened in it.
  if (measured.wholes.length === 0) return measured;
  for (const part of needs) await ADD[part](measuring, measured, needs);
  for (const whole of [...measured.wholes, measured.totals[0]!])
    whole.returning = whole.activity.active - whole.newcomers.fresh;
  return measured;
};
