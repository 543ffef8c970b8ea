import { z } from "zod";
import { invalid, notFound } from "../errors.ts";
import { isReservedType, type Json } from "../events.ts";
import { newId } from "../ids.ts";
import { fromRankScore, scoreEvent, scoreXp } from "../leaderboards/scoring.ts";
import { levelOf } from "../progression/levels.ts";
import { emptyHanded, loadStates, readPlayer } from "../progression/load.ts";
import { noEffects, openTurn } from "../progression/evaluate.ts";
import { loadPlan, type ProjectPlan } from "../progression/plan.ts";
import { readSharedCounters } from "../progression/shared-counters.ts";
import type { PlayerState, RuleEvent, Turn } from "../progression/turn.ts";
import type { Work } from "../work.ts";
import { compileRules, type PublishedRule } from "./compile.ts";
import { RuleDocument } from "./document.ts";
import { Rule } from "./rule.ts";
import { loadPublished } from "./rules.ts";
import { Key, Zone } from "./syntax.ts";
import { type RuleTrace, traceRules, TRACED_RULES_MAX } from "./trace.ts";

const DRAFTS_MAX = 100;
const INLINE_MAX = 20;

const JsonObject = z.record(z.string(), z.unknown());
const Time = z.iso.datetime({ offset: true });

/** A player who need not exist; what is left out is as for a new player. */
const Snapshot = z.strictObject({
  externalUserId: z.string().min(1).max(255).default("simulated"),
  displayName: z.string().max(100).optional(),
  status: z.enum(["ACTIVE", "SUSPENDED", "BANNED"]).default("ACTIVE"),
  xp: z.int().min(0).max(Number.MAX_SAFE_INTEGER).default(0),
  level: z.int().min(1).optional().describe("Default: what the project's level curve says for the XP"),
  timezone: Zone.optional(),
  locale: z.string().max(35).optional(),
  country: z.string().max(2).optional(),
  attributes: JsonObject.default({}),
  tags: z.array(Key).max(50).default([]),
  createdAt: Time.optional(),
  lastSeenAt: Time.optional(),
});

export const Simulation = z.strictObject({
  event: z.strictObject({
    eventType: z.string().regex(/^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,99}$/, "must be an event type"),
    properties: JsonObject.default({}),
    timestamp: Time.optional(),
  }),
  player: z.union([
    z.strictObject({ externalUserId: z.string().min(1).max(255) }),
    z.strictObject({ snapshot: Snapshot }),
  ]),
  include: z
    .strictObject({ published: z.boolean().default(true), drafts: z.array(Key).max(DRAFTS_MAX).default([]) })
    .default({ published: true, drafts: [] }),
  inline: z.array(RuleDocument).max(INLINE_MAX).default([]),
  overrides: z.strictObject({ limits: z.literal("IGNORE").optional() }).default({}),
});
export type Simulation = z.output<typeof Simulation>;

type Change = { changed: string[]; before: Json; after: Json };

/** What an event would do. `resultingState` holds the player's fields that it would change. */
export type EventTrace = {
  eventId: null;
  eventType: string;
  player: { playerId: string; externalUserId: string };
  evaluatedAt: string;
  rulesIndexed: number;
  rules: RuleTrace[];
  leaderboards: { key: string; before: number | null; after: number }[];
  warnings: string[];
  truncated: boolean;
  resultingState: Change;
};

/**
 * Works out what an event would do, without writing and without locks.
 * @throws DomainError NOT_FOUND for an unknown draft, or an unknown player where events do not create players
 */
export const simulate = async (
  work: Work,
  projectId: string,
  simulation: Simulation,
): Promise<EventTrace> => {
  const event = eventOf(work, simulation);
  const plan = await loadPlan(work, projectId);
  if (!plan) throw notFound("project");
  const ruleSet = compileRules(await rulesOf(work, projectId, simulation));
  const player = await playerOf(work, plan, simulation);
  const warnings: string[] = [];
  const nowMs = work.now.getTime();
  const shared = await readSharedCounters(work, []);
  const turn: Turn = {
    ...openTurn({ plan, player, event, nowMs, effects: noEffects(), shared }),
    warn: (message) => void warnings.push(message),
  };
  const before = standingOf(player);
  const scoresBefore = scoresOf(plan, player);
  const rules = traceRules(ruleSet, turn, { ignoreLimits: simulation.overrides.limits === "IGNORE" });
  scoreEvent(turn, plan.boardIndex);
  if (player.xp !== before["xp"]) scoreXp(turn, plan.boardIndex);
  const rulesIndexed = ruleSet.listeners(event.type).length;
  return {
    eventId: null,
    eventType: event.type,
    player: { playerId: player.id, externalUserId: player.externalUserId },
    evaluatedAt: work.now.toISOString(),
    rulesIndexed,
    rules,
    leaderboards: scoreChanges(scoresBefore, scoresOf(plan, player)),
    warnings,
    truncated: rulesIndexed > TRACED_RULES_MAX,
    resultingState: changeOf(before, standingOf(player)),
  };
};

const eventOf = ({ now }: Work, { event }: Simulation): RuleEvent => {
  const { eventType: type, properties, timestamp } = event;
  if (isReservedType(type)) {
    throw invalid("event.eventType", `${type} is reserved for the service's own events`);
  }
  const at = timestamp === undefined ? now.getTime() : Math.min(Date.parse(timestamp), now.getTime());
  return { id: newId(), type, at, properties, depth: 0 };
};

/**
 * Published rules, drafts in the place of what they would replace, and inline rules in the place of their
 * namesakes.
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
    byKey.set(key, { id: newId(), version: 0, createdAt: work.now, ...byKey.get(key), key, definition });
  }
  return [...byKey.values()];
};

const playerOf = async (work: Work, plan: ProjectPlan, { player }: Simulation): Promise<PlayerState> => {
  if ("snapshot" in player) return imagine(work, plan, player.snapshot);
  const { externalUserId } = player;
  const found = await readPlayer(work, { projectId: plan.projectId, externalUserId });
  if (found) {
    await loadStates(work, [found], [plan]);
    return found;
  }
  if (!plan.settings.autoCreatePlayers) throw notFound("player");
  return imagine(work, plan, Snapshot.parse({ externalUserId }));
};

const dateOf = (text: string | undefined): Date | undefined =>
  text === undefined ? undefined : new Date(text);

const imagine = (
  { now }: Work,
  { projectId, curve }: ProjectPlan,
  snapshot: z.output<typeof Snapshot>,
): PlayerState => ({
  id: newId(),
  projectId,
  externalUserId: snapshot.externalUserId,
  displayName: snapshot.displayName ?? null,
  status: snapshot.status,
  xp: snapshot.xp,
  level: snapshot.level ?? levelOf(curve, snapshot.xp),
  seq: 0,
  ledgerSeq: 0,
  ledgerHash: null,
  lives: { count: null, anchorMs: null, unlimitedUntilMs: null },
  zoneChangedMs: null,
  timezone: snapshot.timezone ?? null,
  locale: snapshot.locale ?? null,
  country: snapshot.country ?? null,
  attributes: snapshot.attributes,
  tags: snapshot.tags,
  createdAt: dateOf(snapshot.createdAt) ?? now,
  lastSeenAt: dateOf(snapshot.lastSeenAt) ?? null,
  ...emptyHanded(),
});

const standingOf = ({ xp, level, attributes, tags }: PlayerState): Json => ({ xp, level, attributes, tags });

const changeOf = (before: Json, after: Json): Change => {
  const changed = Object.keys(after).filter((field) => before[field] !== after[field]);
  const pick = (state: Json): Json => Object.fromEntries(changed.map((field) => [field, state[field]]));
  return { changed, before: pick(before), after: pick(after) };
};

const scoresOf = ({ boards }: ProjectPlan, { entries }: PlayerState): Map<string, number> =>
  new Map(
    boards.flatMap((board) => {
      const entry = entries.get(board.periodId);
      return entry ? [[board.key, fromRankScore(board, entry.rankScore)] as const] : [];
    }),
  );

const scoreChanges = (before: ReadonlyMap<string, number>, after: ReadonlyMap<string, number>) =>
  [...after]
    .filter(([key, score]) => before.get(key) !== score)
    .map(([key, score]) => ({ key, before: before.get(key) ?? null, after: score }));
