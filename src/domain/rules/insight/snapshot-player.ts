import { z } from "zod";
import { EXTERNAL_ID_MAX } from "../../kernel/limits.ts";
import { TIERS_MAX } from "../../evaluation/badges/tiers.ts";
import { IsoTime } from "../../kernel/iso-time.ts";
import { newId } from "../../kernel/ids.ts";
import { type AggregateState, DISTINCT_MAX, distinctHash } from "../../evaluation/metrics/aggregates.ts";
import { type CompiledMetric, compileMetric } from "../../evaluation/metrics/compile.ts";
import type { CounterState } from "../../evaluation/metrics/counters.ts";
import { Metric } from "../../evaluation/metrics/metric.ts";
import { levelOf } from "../../evaluation/xp/levels.ts";
import type { PlayerState } from "../../evaluation/player-state.ts";
import { attributesProblem } from "../../evaluation/profile.ts";
import { emptyHoldings } from "../../progression/load.ts";
import type { ProjectPlan } from "../../evaluation/project-plan.ts";
import type { CompiledStreak } from "../../evaluation/streaks/compile.ts";
import { deadlineAfter, periodAt } from "../../evaluation/streaks/periods.ts";
import { type Streak, untouched } from "../../evaluation/streaks/state.ts";
import { Key, smallRecord, Zone } from "../../evaluation/language/syntax.ts";
import { firstZone, windowNumber } from "../../kernel/zones.ts";

/** A player who need not exist, for simulation. */

const HELD_MAX = 100;
const COUNTERS_MAX = 50;
const whole = z.int().min(0).max(Number.MAX_SAFE_INTEGER);

const byKey = <S extends z.ZodType>(item: S) =>
  smallRecord(z.record(Key, item), HELD_MAX, `must name at most ${HELD_MAX}`).default({});

/** Omitted fields are as for a new player. */
export const Snapshot = z.strictObject({
  externalUserId: z.string().min(1).max(EXTERNAL_ID_MAX).default("simulated"),
  displayName: z.string().max(100).optional(),
  status: z.enum(["ACTIVE", "SUSPENDED", "BANNED"]).default("ACTIVE"),
  xp: whole.default(0),
  level: z.int().min(1).optional().describe("Default: the level of the XP on the project's level curve"),
  timezone: Zone.optional(),
  locale: z.string().max(35).optional(),
  country: z.string().max(2).optional(),
  attributes: z
    .record(z.string(), z.unknown())
    .superRefine((attributes, context) => {
      const message = attributesProblem(attributes);
      if (message !== undefined) context.addIssue({ code: "custom", message });
    })
    .default({}),
  tags: z.array(Key).max(50).default([]),
  createdAt: IsoTime.optional(),
  lastSeenAt: IsoTime.optional(),
  currencies: byKey(whole).describe("Balances by key"),
  lives: z.int().min(0).max(1_000_000).optional(),
  badges: byKey(
    z.strictObject({
      tier: z.int().min(0).max(TIERS_MAX).default(1),
      progress: z.number().min(0).default(0),
    }),
  ).describe("By key; tier 0 is progress without the badge"),
  streaks: byKey(
    z.strictObject({
      current: z.int().min(0).max(100_000),
      longest: z.int().min(0).max(100_000).optional(),
      freezes: z.int().min(0).max(100).optional(),
    }),
  ).describe("By key; a current one was last extended in the period before the event's"),
  segments: z.array(Key).max(HELD_MAX).default([]).describe("Segments that the player is in"),
  counters: z
    .array(z.strictObject({ metric: Metric, value: z.number() }))
    .max(COUNTERS_MAX)
    .default([])
    .describe("Values of metrics before the event, in the window of its time"),
});
export type Snapshot = z.output<typeof Snapshot>;

const dateOf = (text: string | undefined): Date | undefined =>
  text === undefined ? undefined : new Date(text);

type Moment = { now: Date; atMs: number };

/** Creates the player described by a snapshot, as of the event's time. */
export const imaginePlayer = (plan: ProjectPlan, snapshot: Snapshot, { now, atMs }: Moment): PlayerState => {
  const { xp, level, attributes, tags, status, externalUserId } = snapshot;
  const zone = firstZone(snapshot.timezone, plan.timezone);
  const counters = snapshot.counters.map(({ metric, value }) => {
    const compiled = compileMetric(metric);
    const own = compiled.zone === "PLAYER" ? zone : firstZone(plan.timezone);
    return [compiled.id, counterOf(compiled, value, { atMs, zone: own })] as const;
  });
  return {
    id: newId(),
    projectId: plan.projectId,
    externalUserId,
    displayName: snapshot.displayName ?? null,
    status,
    xp,
    level: level ?? levelOf(plan.curve, xp),
    seq: 0,
    ledgerSeq: 0,
    ledgerHash: null,
    lives: { count: snapshot.lives ?? null, anchorMs: atMs, unlimitedUntilMs: null },
    zoneChangedMs: null,
    timezone: snapshot.timezone ?? null,
    locale: snapshot.locale ?? null,
    country: snapshot.country ?? null,
    attributes,
    tags,
    createdAt: dateOf(snapshot.createdAt) ?? now,
    firstSeenAt: null,
    lastSeenAt: dateOf(snapshot.lastSeenAt) ?? null,
    activeMonth: null,
    ...emptyHoldings(),
    ...holdingsOf(plan, snapshot, { atMs, zone, projectZone: firstZone(plan.timezone) }),
    ...(counters.length === 0 ? {} : { doc: { c: Object.fromEntries(counters) } }),
  };
};

type SnapshotContext = { atMs: number; zone: string };
type Places = SnapshotContext & { projectZone: string };

const holdingsOf = ({ streaks }: ProjectPlan, snapshot: Snapshot, place: Places) => ({
  balances: new Map(
    Object.entries(snapshot.currencies).map(([key, balance]) => [
      key,
      { balance, held: 0, earned: balance, spent: 0 },
    ]),
  ),
  badges: new Map(
    Object.entries(snapshot.badges).map(([key, { tier, progress }]) => {
      const earnedMs = tier > 0 ? place.atMs : null;
      const awards = { timesAwarded: Math.min(tier, 1), serialNo: null, revokedMs: null };
      return [key, { tier, progress, ...awards, firstEarnedMs: earnedMs, lastEarnedMs: earnedMs }];
    }),
  ),
  streaks: new Map(
    Object.entries(snapshot.streaks).flatMap(([key, given]) => {
      const streak = streaks.get(key);
      return streak ? [[key, streakOf(streak, given, place)] as const] : [];
    }),
  ),
  segments: new Map(snapshot.segments.map((key) => [key, place.atMs])),
});

const streakOf = (
  streak: CompiledStreak,
  { current, longest, freezes }: Snapshot["streaks"][string],
  { atMs, zone, projectZone }: Places,
): Streak => {
  const fresh = untouched(streak);
  const base = {
    ...fresh,
    current,
    longest: Math.max(longest ?? 0, current),
    freezes: freezes ?? fresh.freezes,
  };
  if (current === 0) return base;
  const own = streak.definition.timezonePolicy === "PLAYER" ? zone : projectZone;
  const last = periodAt(streak.calendar, own, atMs) - 1;
  const isPeriodic = streak.definition.mode === "PERIODIC";
  return {
    ...base,
    deadlineMs: isPeriodic ? deadlineAfter(streak.calendar, own, last) : null,
    doc: {
      zone: own,
      run: { first: last - (isPeriodic ? current - 1 : 0), last, frozen: [], name: "simulated" },
      ...(isPeriodic ? {} : { runs: 1 }),
    },
  };
};

/** Creates a counter whose value is `value` at a moment. */
const counterOf = (
  { aggregate, window }: CompiledMetric,
  value: number,
  { atMs, zone }: SnapshotContext,
): CounterState => {
  const state = aggregateOf(aggregate, value, atMs);
  if (window.type === "CALENDAR") return [[windowNumber(window.unit, zone, atMs), state]];
  return window.type === "ROLLING" ? [[Math.floor(atMs / window.bucketMs), state]] : state;
};

const aggregateOf = (aggregate: CompiledMetric["aggregate"], value: number, atMs: number): AggregateState => {
  if (aggregate === "avg") return [value, 1];
  if (aggregate === "latest") return [atMs - 1, value];
  if (aggregate !== "distinct") return value;
  const length = Math.max(0, Math.min(DISTINCT_MAX, Math.floor(value)));
  return Array.from({ length }, (_, i) => distinctHash(`\0simulated ${i}`)).join("");
};
