import { isDeepStrictEqual } from "node:util";
import { sql } from "kysely";
import { z } from "zod";
import { hasJoined, wholePoints } from "../../evaluation/adventures/row.ts";
import type { Moment } from "../../evaluation/boards/board.ts";
import { noEffects } from "../../evaluation/effects.ts";
import { evaluateEvent, openTurn, saveSettled } from "../../evaluation/evaluate.ts";
import { RuleDocument } from "../../evaluation/language/document.ts";
import { SCHEDULE_TYPE } from "../../evaluation/language/patterns.ts";
import { Key, smallRecord, Zone } from "../../evaluation/language/syntax.ts";
import { showLives } from "../../evaluation/lives/lives.ts";
import { type AggregateState, DISTINCT_MAX, distinctHash } from "../../evaluation/metrics/aggregates.ts";
import {
  type CompiledMetric,
  compileMetric,
  type CounterState,
  Metric,
} from "../../evaluation/metrics/compile.ts";
import type { PlayerState } from "../../evaluation/player-state.ts";
import { attributesProblem } from "../../evaluation/profile.ts";
import type { PlanTurn, ProjectPlan } from "../../evaluation/project-plan.ts";
import { outlineRow } from "../../evaluation/quests/show.ts";
import type { RuleEvent } from "../../evaluation/rule-event.ts";
import { type PublishedRule, rulePieces } from "../../evaluation/running/compile.ts";
import { type CompiledStreak, type Streak, untouched } from "../../evaluation/streaks/compile.ts";
import { deadlineAfter, periodAt } from "../../evaluation/streaks/periods.ts";
import { createTrace, type EventTrace, truncateTrace } from "../../evaluation/trace/trace.ts";
import { levelOf } from "../../evaluation/xp/levels.ts";
import { DomainError, invalid, notFound } from "../../kernel/errors.ts";
import { canTriggerRules } from "../../kernel/events/event-types.ts";
import type { Json } from "../../kernel/events/events.ts";
import { isId, newId } from "../../kernel/ids.ts";
import { IsoTime } from "../../kernel/iso-time.ts";
import { EXTERNAL_ID_MAX, TIERS_MAX } from "../../kernel/limits.ts";
import { bytesOf } from "../../kernel/hostile-json.ts";
import { createSharedCounters } from "../../evaluation/shared-counters.ts";
import { inSlices, mapInSlices } from "../../kernel/slices.ts";
import type { Work } from "../../kernel/work.ts";
import { type Calendar, calendarOf, windowNumber } from "../../kernel/zones.ts";
import { loadStates } from "../../progression/load-states.ts";
import { emptyHoldings, readPlayer } from "../../progression/load.ts";
import { readCounters } from "../../progression/lock-shared-counters.ts";
import { loadPlan } from "../../progression/plan.ts";
import { loadPublished } from "../../progression/load-plan.ts";
import { Rule } from "../rules.ts";
import { checkTime, PROPERTIES_MAX_BYTES } from "../../tracking/event-input.ts";

/** Returns the quests that the turn's player has begun, by key, with the values of their steps. */
const questsOf = (turn: PlanTurn): Json =>
  Object.fromEntries(
    [...turn.player.quests].flatMap(([key, { latest }]) => {
      const quest = turn.project.quests.byKey.get(key);
      if (!quest) return [];
      const { cycleKey, state, percent, steps } = outlineRow(turn, quest, latest);
      const values = Object.fromEntries(steps.map(({ stepKey, value }) => [stepKey, value]));
      return [[key, { cycleKey, state, percent, steps: values }]];
    }),
  );

/** Returns the quests and adventures of the turn's player as they stand, as far as they are begun. */
const goalsOf = (turn: PlanTurn): Json => ({
  quests: questsOf(turn),
  adventures: Object.fromEntries(
    [...turn.player.adventures].flatMap(([key, row]) =>
      hasJoined(row)
        ? [[key, { state: row.state, points: wholePoints(row), tiers: Object.keys(row.tiers).map(Number) }]]
        : [],
    ),
  ),
});

/** A player who need not exist, for simulation. */

const HELD_MAX = 100;
const COUNTERS_MAX = 50;
const whole = z.int().min(0).max(Number.MAX_SAFE_INTEGER);

const keyedBy = <S extends z.ZodType>(item: S) =>
  smallRecord(z.record(Key, item), HELD_MAX, `must name at most ${HELD_MAX}`).default({});

/** Omitted fields are as for a new player. */
const Snapshot = z.strictObject({
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
  currencies: keyedBy(whole).describe("Balances by key"),
  lives: z.int().min(0).max(1_000_000).optional(),
  badges: keyedBy(
    z.strictObject({
      tier: z.int().min(0).max(TIERS_MAX).default(1),
      progress: z.number().min(0).default(0),
    }),
  ).describe("By key; tier 0 is progress without the badge"),
  streaks: keyedBy(
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
type Snapshot = z.output<typeof Snapshot>;

const dateOf = (text: string | undefined): Date | undefined =>
  text === undefined ? undefined : new Date(text);

type SnapshotMoment = { now: Date; atMs: number };

/** Creates the player described by a snapshot, as of the event's time. */
const imaginePlayer = (plan: ProjectPlan, snapshot: Snapshot, { now, atMs }: SnapshotMoment): PlayerState => {
  const { xp, level, attributes, tags, status, externalUserId } = snapshot;
  const calendar = calendarOf(plan, snapshot.timezone);
  const counters = snapshot.counters.map(({ metric, value }) => {
    const compiled = compileMetric(metric);
    const own = compiled.zone === "PLAYER" ? calendar : calendarOf(plan);
    return [compiled.id, counterOf(compiled, value, { atMs, calendar: own })] as const;
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
    ...holdingsOf(plan, snapshot, { atMs, zone: calendar.zone, projectZone: calendarOf(plan).zone }),
    ...(counters.length === 0 ? {} : { doc: { c: Object.fromEntries(counters) } }),
  };
};

type SnapshotContext = { atMs: number; calendar: Calendar };
type Places = { atMs: number; zone: string; projectZone: string };

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
  { atMs, calendar }: SnapshotContext,
): CounterState => {
  const state = aggregateOf(aggregate, value, atMs);
  if (window.type === "CALENDAR") return [[windowNumber(window.unit, calendar, atMs), state]];
  return window.type === "ROLLING" ? [[Math.floor(atMs / window.bucketMs), state]] : state;
};

const aggregateOf = (aggregate: CompiledMetric["aggregate"], value: number, atMs: number): AggregateState => {
  if (aggregate === "avg") return [value, 1];
  if (aggregate === "latest") return [atMs - 1, value];
  if (aggregate !== "distinct") return value;
  const length = Math.max(0, Math.min(DISTINCT_MAX, Math.floor(value)));
  return Array.from({ length }, (_, i) => distinctHash(`\0simulated ${i}`)).join("");
};

const NO_TRACE =
  "the event has no trace: it was not sampled (settings.traceSampling), waits to be processed, or is too old";

/**
 * Returns the stored trace of an event. @throws DomainError NOT_FOUND: no such event, or it was not sampled
 */
export const getTrace = async (
  { db, now }: Work,
  projectId: string,
  eventId: string,
): Promise<EventTrace> => {
  if (!isId(eventId)) throw notFound("event");
  const found = await sql<{ trace: EventTrace | null }>`
    select t.trace from tracked_events e
    left join event_traces t on t.project_id = e.project_id and t.event_id = e.id
      and t.expires_at > ${now.toISOString()}::timestamptz
    where e.project_id = ${projectId} and e.id = ${eventId}`.execute(db);
  const [row] = found.rows;
  if (!row) throw notFound("event");
  if (!row.trace) throw new DomainError("NOT_FOUND", NO_TRACE);
  return row.trace;
};

const DRAFTS_MAX = 100;
const INLINE_MAX = 20;

export const Simulation = z.strictObject({
  event: z.strictObject({
    eventType: z
      .string()
      .regex(/^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,99}$/, "must be an event type")
      .describe("One of your own, one that happens to a player such as player.level_up, or system.schedule"),
    properties: z
      .record(z.string(), z.unknown())
      .refine((properties) => bytesOf(properties) <= PROPERTIES_MAX_BYTES, "must be at most 16 KiB of JSON")
      .default({}),
    timestamp: IsoTime.optional(),
    ruleKey: Key.optional().describe("With system.schedule: the rule that it is for"),
  }),
  player: z.union([
    z.strictObject({ externalUserId: z.string().min(1).max(EXTERNAL_ID_MAX) }),
    z.strictObject({ snapshot: Snapshot }),
  ]),
  include: z
    .strictObject({ published: z.boolean().default(true), drafts: z.array(Key).max(DRAFTS_MAX).default([]) })
    .default({ published: true, drafts: [] }),
  inline: z.array(RuleDocument).max(INLINE_MAX).default([]),
  overrides: z.strictObject({ limits: z.literal("IGNORE").optional() }).default({}),
});
export type Simulation = z.output<typeof Simulation>;

/**
 * Parses a simulation with its inline rules one by one, yielding to other work in between. @throws ZodError
 */
export const readSimulation = async (given: unknown): Promise<Simulation> => {
  const inline = (given as { inline?: unknown } | null)?.inline;
  if (!Array.isArray(inline) || inline.length > INLINE_MAX) return Simulation.parse(given);
  const read = await mapInSlices(inline, (rule) => RuleDocument.safeParse(rule));
  const issues = read.flatMap(({ error }, place) =>
    (error?.issues ?? []).map((issue) => ({ ...issue, path: ["inline", place, ...issue.path] })),
  );
  if (issues.length > 0) throw new z.ZodError(issues);
  const simulation = Simulation.parse({ ...(given as object), inline: [] });
  return { ...simulation, inline: read.map(({ data }) => data!) };
};

type Change = { changed: string[]; before: Json; after: Json };

/**
 * Effects of a simulated event. `resultingState` holds the player's state that it would change, and
 * `playerExists` is false where the player was made up: from a snapshot, or because no player has the id.
 */
type SimulatedEvent = EventTrace & { playerExists: boolean; resultingState: Change };

/**
 * Evaluates an event as processing would, in trace mode, and writes nothing: no locks, and limits over all
 * players as they stand. The output is limited to the size of a stored trace.
 * @throws DomainError VALIDATION_ERROR; NOT_FOUND: a draft, or a player whom events may not create
 */
export const simulate = async (
  work: Work,
  projectId: string,
  simulation: Simulation,
): Promise<SimulatedEvent> => {
  const rules = await inSlices(rulePieces(await rulesOf(work, projectId, simulation)));
  const plan = await loadPlan(work, projectId, rules);
  if (!plan) throw notFound("project");
  const event = eventOf(work, plan, simulation);
  const found = await findPlayer(work, plan, simulation, event);
  const player = found ?? imagine(work, plan, simulation, event.at);
  const nowMs = work.now.getTime();
  const shared = createSharedCounters("ASKED");
  for (;;) {
    const trace = createTrace(plan.rules, {
      eventId: null,
      ignoreLimits: simulation.overrides.limits === "IGNORE",
    });
    const turn = openTurn({ plan, player, event, nowMs, effects: noEffects(), shared, trace });
    const undo = saveSettled(turn);
    const before = { ...standingOf(plan, player, nowMs), ...goalsOf(turn) };
    evaluateEvent(turn);
    const asked = shared.asked();
    if (asked.length === 0) {
      const shown = truncateTrace(trace.result());
      const after = { ...standingOf(plan, player, nowMs), ...goalsOf(turn) };
      return { ...shown, playerExists: found !== undefined, resultingState: changeOf(before, after) };
    }
    undo();
    shared.load(await readCounters(work, asked));
  }
};

const eventOf = ({ now }: Work, plan: ProjectPlan, { event }: Simulation): RuleEvent => {
  const { eventType: type, properties, timestamp, ruleKey } = event;
  const givenMs = timestamp === undefined ? now.getTime() : Date.parse(timestamp);
  checkTime(givenMs, now, plan.settings.maxEventAgeDays);
  const at = Math.min(givenMs, now.getTime());
  const base = { id: newId(), type, at, properties, depth: 0 };
  if (type === SCHEDULE_TYPE) return { ...base, ruleId: scheduledRule(plan, ruleKey) };
  if (ruleKey !== undefined) throw invalid("event.ruleKey", `can only be given with ${SCHEDULE_TYPE}`);
  if (!canTriggerRules(type)) throw invalid("event.eventType", `events of type ${type} cannot trigger rules`);
  return base;
};

const scheduledRule = ({ rules }: ProjectPlan, ruleKey: string | undefined): string => {
  if (ruleKey === undefined) throw invalid("event.ruleKey", `is required with ${SCHEDULE_TYPE}`);
  const rule = rules.all.find(({ key }) => key === ruleKey);
  if (!rule) throw invalid("event.ruleKey", `${ruleKey}: no such rule is part of this simulation`);
  return rule.id;
};

/**
 * Returns published rules, with drafts replacing their published versions, and inline rules replacing rules
 * of the same key.
 */
const rulesOf = async (
  work: Work,
  projectId: string,
  { include, inline }: Simulation,
): Promise<PublishedRule[]> => {
  const published = include.published ? await loadPublished(work, projectId) : [];
  const byKey = new Map(published.map((rule) => [rule.key, rule]));
  const drafts = await work.em.find(Rule, {
    projectId,
    key: { $in: include.drafts },
    status: { $ne: "ARCHIVED" },
  });
  for (const { id, key, createdAt, draft, draftVersion } of drafts) {
    byKey.set(key, { id, key, version: draftVersion, createdAt, definition: draft });
  }
  const missing = include.drafts.find((key) => !drafts.some((draft) => draft.key === key));
  if (missing !== undefined) throw notFound(`rule ${missing}`);
  for (const definition of inline) {
    const { key } = definition;
    const stored = byKey.get(key) ?? { id: newId(), createdAt: work.now };
    byKey.set(key, { ...stored, version: 0, key, definition, isShadow: false });
  }
  return [...byKey.values()];
};

/** Reads the player, undefined where there is none. */
const findPlayer = async (
  work: Work,
  plan: ProjectPlan,
  { player }: Simulation,
  moment: Moment,
): Promise<PlayerState | undefined> => {
  if ("snapshot" in player) return undefined;
  const { externalUserId } = player;
  const found = await readPlayer(work, { projectId: plan.projectId, externalUserId });
  if (!found) {
    if (!plan.settings.autoCreatePlayers) throw notFound("player");
    return undefined;
  }
  found.moments = [moment];
  await loadStates(work, [found], [plan]);
  return found;
};

/** Makes the player up: of the snapshot, or new. */
const imagine = ({ now }: Work, plan: ProjectPlan, { player }: Simulation, atMs: number): PlayerState => {
  const snapshot =
    "snapshot" in player ? player.snapshot : Snapshot.parse({ externalUserId: player.externalUserId });
  return imaginePlayer(plan, snapshot, { now, atMs });
};

const mapped = <V, R>(map: ReadonlyMap<string, V>, show: (value: V) => R): Record<string, R> =>
  Object.fromEntries([...map].map(([key, value]) => [key, show(value)]));

/** Returns the part of a player's state that events change. */
const standingOf = ({ settings }: ProjectPlan, player: PlayerState, nowMs: number): Json => ({
  xp: player.xp,
  level: player.level,
  attributes: player.attributes,
  tags: player.tags,
  currencies: mapped(player.balances, ({ balance }) => balance),
  lives: showLives(settings.lives, player, nowMs),
  badges: mapped(player.badges, ({ tier, progress }) => ({ tier, progress })),
  streaks: mapped(player.streaks, ({ current, longest, freezes }) => ({ current, longest, freezes })),
  segments: [...player.segments.keys()].toSorted(),
  boosts: [...player.boosts.values()].map(({ boostKey, applies, factor, expiresMs, usesLeft }) => ({
    boostKey,
    applies,
    factor,
    expiresAt: new Date(expiresMs).toISOString(),
    usesLeft,
  })),
});

/** Fields that may hold much of which one event changes little: only the entries that change are shown. */
const SHOWN_IN_PART: ReadonlySet<string> = new Set(["quests", "adventures"]);

const entriesUnlike = (entries: Json, others: Json): Json =>
  Object.fromEntries(
    Object.entries(entries).filter(([key, value]) => !isDeepStrictEqual(value, others[key])),
  );

const changeOf = (before: Json, after: Json): Change => {
  const changed = Object.keys(after).filter((field) => !isDeepStrictEqual(before[field], after[field]));
  const pick = (state: Json, other: Json): Json =>
    Object.fromEntries(
      changed.map((field) => [
        field,
        SHOWN_IN_PART.has(field) ? entriesUnlike(state[field] as Json, other[field] as Json) : state[field],
      ]),
    );
  return { changed, before: pick(before, after), after: pick(after, before) };
};
