import { isDeepStrictEqual } from "node:util";
import { EXTERNAL_ID_MAX } from "../../kernel/limits.ts";
import { z } from "zod";
import { IsoTime } from "../../kernel/iso-time.ts";
import { invalid, notFound } from "../../kernel/errors.ts";
import type { Json } from "../../kernel/events/events.ts";
import { canTriggerRules } from "../../kernel/events/event-types.ts";
import { newId } from "../../kernel/ids.ts";
import { PacedBudget, paced } from "../../kernel/pace.ts";
import { showLives } from "../../evaluation/lives/lives.ts";
import { evaluateEvent, noEffects, openTurn } from "../../evaluation/evaluate.ts";
import { readPlayer } from "../../progression/load.ts";
import { loadStates } from "../../progression/load-states.ts";
import { loadPlan } from "../../progression/plan.ts";
import type { Moment } from "../../evaluation/boards/list.ts";
import type { PlayerState } from "../../evaluation/player-state.ts";
import type { ProjectPlan } from "../../evaluation/project-plan.ts";
import type { RuleEvent } from "../../evaluation/rule-event.ts";
import { readSharedCounters } from "../../progression/lock-shared-counters.ts";
import { sharedKeysOf } from "../../evaluation/shared-needs.ts";
import { mapInSlices } from "../../kernel/slices.ts";
import { bytesOf, findOversize } from "../../kernel/oversize.ts";
import { checkTime, PROPERTIES_MAX_BYTES } from "../../tracking/event-input.ts";
import type { Work } from "../../kernel/work.ts";
import { type PublishedRule, rulePieces } from "../../evaluation/running/compile.ts";
import { RuleDocument } from "../../evaluation/language/document.ts";
import { Rule } from "../rule.ts";
import { loadPublishedInPages } from "../../progression/published-rules.ts";
import { goalsOf } from "./simulated-goals.ts";
import { imaginePlayer, Snapshot } from "./snapshot-player.ts";
import { Key } from "../../evaluation/language/syntax.ts";
import { createTrace, type EventTrace } from "../../evaluation/trace/trace.ts";
import { truncateTrace } from "../../evaluation/trace/keep-trace.ts";

const DRAFTS_MAX = 100;
const INLINE_MAX = 20;

/** Type of the event that delivers a rule's schedule trigger to a player. */
const SCHEDULE_TYPE = "system.schedule";

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
  const oversize = findOversize(Simulation, given);
  if (oversize) throw new z.ZodError([oversize]);
  const inline = (given as { inline?: unknown } | null)?.inline;
  if (!Array.isArray(inline)) return Simulation.parse(given);
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
export type SimulatedEvent = EventTrace & { playerExists: boolean; resultingState: Change };

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
  const rules = await paced(
    rulePieces(await rulesOf(work, projectId, simulation)),
    new PacedBudget(Infinity),
  );
  const plan = await loadPlan(work, projectId, rules);
  if (!plan) throw notFound("project");
  const event = eventOf(work, plan, simulation);
  const found = await findPlayer(work, plan, simulation, event);
  const player = found ?? imagine(work, plan, simulation, event.at);
  const nowMs = work.now.getTime();
  const keys = await paced(sharedKeysOf(plan, [event]), new PacedBudget(Infinity));
  const shared = await readSharedCounters(work, keys);
  const trace = createTrace(plan.rules, {
    eventId: null,
    ignoreLimits: simulation.overrides.limits === "IGNORE",
  });
  const turn = openTurn({ plan, player, event, nowMs, effects: noEffects(), shared, trace });
  const before = { ...standingOf(plan, player, nowMs), ...goalsOf(turn) };
  evaluateEvent(turn);
  const shown = truncateTrace(trace.result(), turn.root.accounts.explaining);
  const after = { ...standingOf(plan, player, nowMs), ...goalsOf(turn) };
  return { ...shown, playerExists: found !== undefined, resultingState: changeOf(before, after) };
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
  const published = include.published ? await loadPublishedInPages(work, projectId) : [];
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
