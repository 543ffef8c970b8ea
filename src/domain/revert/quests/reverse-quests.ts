import { publish } from "../../evaluation/emit.ts";
import { isSubtractable, subtractSample } from "../../evaluation/metrics/aggregates.ts";
import type { PastEvent } from "../../evaluation/metrics/count.ts";
import { isInPause } from "../../evaluation/live.ts";
import type { PlanTurn } from "../../evaluation/project-plan.ts";
import type { CompiledQuest, CompiledStep } from "../../evaluation/quests/compile.ts";
import { doneBy } from "../../evaluation/quests/context.ts";
import type { QuestRow } from "../../evaluation/quests/row.ts";
import { outlineRow } from "../../evaluation/quests/show.ts";
import type { EventStep } from "../../evaluation/quests/step.ts";
import {
  countOf,
  dropCounts,
  questPercent,
  storeLatest,
  withdrawDropped,
} from "../../evaluation/quests/store.ts";
import type { Steps } from "../../kernel/slices.ts";
import type { PlayerRecord, QuestOutcome, Reversal } from "../record.ts";
import { rewardOfGoal } from "../read-record.ts";

/** Takes back the progress of quests that the event has brought, and names what stays. In pieces. */
export function* reverseQuests(
  turn: PlanTurn,
  record: PlayerRecord,
  { past, reversal }: { past: readonly PastEvent[]; reversal: Reversal },
): Steps<void> {
  const { outcomes, known } = record.goals;
  for (const outcome of outcomes) {
    yield;
    apply(turn, outcome, reversal);
  }
  for (const event of past)
    for (const quest of turn.project.quests.forEvent(event.type)) {
      if (known.has(quest.key)) continue;
      yield;
      const isPaused = isInPause(quest.pauses, record.event.id);
      subtract(turn, quest, { event, isPaused, reversal });
    }
  for (const what of rewardsThatStay(turn, record)) reversal.left.add(what);
}

/** Returns the rewards of quests of which it is not known whether the event was needed, in words. */
const rewardsThatStay = (turn: PlanTurn, { goals, ledger, grants }: PlayerRecord): string[] =>
  [...ledger, ...grants].flatMap(({ key }) => {
    const reward = rewardOfGoal(key);
    if (reward?.startsWith("q:") !== true || goals.lost.has(reward)) return [];
    const id = reward.split(":")[1]!;
    const questKey = goals.keys.get(id) ?? keyOfRow(turn, id);
    if (questKey === undefined) return ["rewards of quests"];
    return goals.known.has(questKey) ? [] : [`quest ${questKey}: ${STAYS}`];
  });

const STAYS = "its progress and rewards stay";

const keyOfRow = ({ player: { quests } }: PlanTurn, id: string): string | undefined => {
  for (const [key, { latest, older }] of quests)
    if (latest.id === id || older.some((row) => row.id === id)) return key;
  return undefined;
};

const atNow = (turn: PlanTurn): PlanTurn => ({ ...turn, event: { ...turn.event, at: turn.nowMs } });

/**
 * The turn now, with the counters that are left when all events are taken back: those that are reverted after
 * this one still count in the player's own.
 */
const asLeft = (turn: PlanTurn, { counters }: QuestOutcome): PlanTurn => {
  const { player } = turn;
  const left = [...counters].filter(([, state]) => state !== undefined);
  const others = Object.entries(player.doc.c ?? {}).filter(([id]) => !counters.has(id));
  const c = Object.fromEntries([...others, ...left]) as NonNullable<typeof player.doc.c>;
  return { ...atNow(turn), player: { ...player, doc: { ...player.doc, c } } };
};

const tell = (turn: PlanTurn, left: PlanTurn, quest: CompiledQuest, row: QuestRow): void => {
  const { id: playerId, externalUserId } = turn.player;
  const change = row.state === "RESET" ? "RESET" : "PROGRESS";
  const shown = outlineRow(left, quest, row);
  publish(turn, "quest.updated", { playerId, externalUserId, quest: shown, change });
};

const isSubmitted = ({ definition: { kind } }: CompiledStep): boolean => kind !== "EVENT" && kind !== "STATE";

/** Of what players submit a replay knows only when it was done, but each part of it counts in the percent. */
const withPercent = (left: PlanTurn, quest: CompiledQuest, row: QuestRow): QuestRow => {
  const version = doneBy(quest, row);
  if (row.state !== "IN_PROGRESS" || !version.steps.some(isSubmitted)) return row;
  return { ...row, percent: questPercent(left, version, row) };
};

/** Stores what the steps of cycles have counted. */
const storeCounts = (turn: PlanTurn, { rows }: QuestOutcome): void => {
  const { doc, dirty } = turn.player;
  for (const { row, counts } of rows) {
    dropCounts(turn, row);
    if (counts) (doc.q ??= {})[row.id] = counts;
  }
  dirty.doc = true;
};

/** Stores the cycles as they are without the events. */
const apply = (turn: PlanTurn, outcome: QuestOutcome, reversal: Reversal): void => {
  const { quest, rows, fewer, lastCompletedMs, left } = outcome;
  for (const what of left) reversal.left.add(what);
  if (rows.length === 0) return;
  const { player } = turn;
  const state = player.quests.get(quest.key)!;
  const byId = new Map([...state.older, state.latest].map((row) => [row.id, row]));
  storeCounts(turn, outcome);
  const asIs = asLeft(turn, outcome);
  const changed = rows.map(({ row }) => withPercent(asIs, quest, row));
  for (const row of changed) byId.set(row.id, row);
  const { id } = outcome.latest ?? state.latest;
  const last = byId.get(id) ?? outcome.latest!;
  const completions = Math.max(0, state.latest.completions - fewer);
  const times = fewer === 0 ? state.latest.lastCompletedMs : lastCompletedMs;
  const latest: QuestRow = { ...last, completions, lastCompletedMs: times, isChanged: true };
  byId.delete(last.id);
  const now = { latest, older: [...byId.values()] };
  withdrawDropped(turn, state, now);
  player.quests.set(quest.key, now);
  player.dirty.quests.add(quest.key);
  reversal.quests.add(quest.key);
  for (const row of changed) tell(turn, asIs, quest, row);
};

/** `isPaused`: the event came in a pause of the quest, so that only counters of LIFETIME have counted it. */
type Subtracting = { event: PastEvent; isPaused: boolean; reversal: Reversal };

/** Takes an event from what the latest cycle is counting, where the whole of it is not known. */
const subtract = (turn: PlanTurn, quest: CompiledQuest, of: Subtracting): void => {
  const { event, isPaused, reversal } = of;
  const latest = turn.player.quests.get(quest.key)?.latest;
  if (!latest || (isPaused && doneBy(quest, latest).steps.every(({ lifetime }) => !lifetime))) return;
  const stays = (): void => void reversal.left.add(`quest ${quest.key}: ${STAYS}`);
  if (isOfEarlier(latest, event)) return stays();
  if (latest.state === "RESET") return;
  if (latest.state === "IN_PROGRESS") return subtractSteps(turn, quest, { latest, ...of });
  if (mayHaveCounted(latest, event)) stays();
};

const subtractSteps = (
  turn: PlanTurn,
  quest: CompiledQuest,
  { latest, event, isPaused, reversal }: Subtracting & { latest: QuestRow },
): void => {
  const version = doneBy(quest, latest);
  let isChanged = false;
  for (const place of version.stepsFor(event.type)) {
    const fate = subtractStep(turn, version.steps[place]!, { row: latest, event, isPaused });
    if (fate === "STAYS") reversal.left.add(`quest ${quest.key}: ${STAYS}`);
    isChanged ||= fate === "TAKEN";
  }
  if (!isChanged) return;
  const percent = questPercent(turn, version, latest);
  storeLatest(turn, quest.key, { ...latest, percent });
  reversal.quests.add(quest.key);
  tell(turn, atNow(turn), quest, { ...latest, percent });
};

/** Whether a cycle before this one may have counted an event, and was completed. */
const isOfEarlier = ({ startedMs, completedMs, completions }: QuestRow, { at }: PastEvent): boolean =>
  at < startedMs && completions > (completedMs === null ? 0 : 1);

const mayHaveCounted = ({ startedMs, completedMs }: QuestRow, { at }: PastEvent): boolean =>
  at >= startedMs && (completedMs === null || at <= completedMs);

type OfRow = { row: QuestRow; event: PastEvent; isPaused: boolean };
type Fate = "TAKEN" | "STAYS" | undefined;

/** Takes an event from what a step counts itself: one that LIFETIME counts is taken from its counter. */
const subtractStep = (turn: PlanTurn, step: CompiledStep, of: OfRow): Fate => {
  const { row, event, isPaused } = of;
  const { definition, lifetime } = step;
  if (definition.kind !== "EVENT" || (isPaused && !lifetime)) return undefined;
  const { doneMs } = row.steps[definition.key] ?? {};
  if (doneMs !== undefined) return event.at <= doneMs ? "STAYS" : undefined;
  if (lifetime) return "TAKEN";
  return event.at < sinceMs(definition, row) ? undefined : takeSample(turn, step, of);
};

/** Since when a step that is not done has counted; Infinity for not yet. */
const sinceMs = ({ key, countFrom }: EventStep, { startedMs, steps }: QuestRow): number =>
  countFrom === "QUEST_START" ? startedMs : (steps[key]?.startMs ?? Infinity);

const takeSample = (turn: PlanTurn, { definition, sampleOf }: CompiledStep, { row, event }: OfRow): Fate => {
  const { key, metric } = definition as EventStep;
  const { type, at, properties } = event;
  const sample = sampleOf?.({ ...turn, event: { id: "", type, at, properties, depth: 0 } });
  const count = countOf(turn, row, key);
  if (sample === undefined || count === undefined) return undefined;
  if (metric.aggregate === "streak" || !isSubtractable(metric.aggregate)) return "STAYS";
  const counts = (turn.player.doc.q ??= {});
  counts[row.id] = { ...counts[row.id], [key]: subtractSample(metric.aggregate, count, sample) };
  turn.player.dirty.doc = true;
  return "TAKEN";
};
