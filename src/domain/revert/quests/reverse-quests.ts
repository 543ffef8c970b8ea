import { publish } from "../../evaluation/emit.ts";
import { isSubtractable, subtractSample } from "../../evaluation/metrics/aggregates.ts";
import type { PastEvent } from "../../evaluation/metrics/count.ts";
import type { PlanTurn } from "../../evaluation/project-plan.ts";
import type { CompiledQuest, CompiledStep } from "../../evaluation/quests/compile.ts";
import { doneBy } from "../../evaluation/quests/context.ts";
import type { QuestRow } from "../../evaluation/quests/row.ts";
import { showRow } from "../../evaluation/quests/show.ts";
import type { EventStep } from "../../evaluation/quests/step.ts";
import { dropCounts, storeLatest } from "../../evaluation/quests/store.ts";
import { countOf, questPercent } from "../../evaluation/quests/values.ts";
import type { PlayerRecord, QuestOutcome, Reversal } from "../record.ts";
import { rewardOfQuest } from "./outcome.ts";

/** Takes back the progress of quests that the event has brought, and names what stays. */
export const reverseQuests = (
  turn: PlanTurn,
  record: PlayerRecord,
  { past, reversal }: { past: readonly PastEvent[]; reversal: Reversal },
): void => {
  const { outcomes, known } = record.quests;
  for (const outcome of outcomes) apply(turn, outcome, reversal);
  for (const event of past)
    for (const quest of turn.project.quests.forEvent(event.type))
      if (!known.has(quest.key)) subtract(turn, quest, { event, reversal });
  for (const what of rewardsThatStay(turn, record)) reversal.left.add(what);
};

/** Returns the rewards of quests of which it is not known whether the event was needed, in words. */
const rewardsThatStay = (turn: PlanTurn, { quests, ledger, grants }: PlayerRecord): string[] =>
  [...ledger, ...grants].flatMap(({ key }) => {
    const reward = rewardOfQuest(key);
    if (reward === undefined || quests.lost.has(reward)) return [];
    const id = reward.split(":")[1]!;
    const questKey = quests.keys.get(id) ?? keyOfRow(turn, id);
    if (questKey === undefined) return ["rewards of quests"];
    return quests.known.has(questKey) ? [] : [`quest ${questKey}: ${STAYS}`];
  });

const STAYS = "its progress and rewards stay";

const keyOfRow = ({ player: { quests } }: PlanTurn, id: string): string | undefined => {
  for (const [key, { latest, older }] of quests)
    if (latest.id === id || older.some((row) => row.id === id)) return key;
  return undefined;
};

const tell = (turn: PlanTurn, quest: CompiledQuest, row: QuestRow): void => {
  const { id: playerId, externalUserId } = turn.player;
  const change = row.state === "RESET" ? "RESET" : "PROGRESS";
  const now = { ...turn, event: { ...turn.event, at: turn.nowMs } };
  publish(turn, "quest.updated", { playerId, externalUserId, quest: showRow(now, quest, row), change });
};

/** Stores the cycles as they are without the events. */
const apply = (turn: PlanTurn, outcome: QuestOutcome, reversal: Reversal): void => {
  const { quest, rows, fewer, lastCompletedMs, left } = outcome;
  for (const what of left) reversal.left.add(what);
  if (rows.length === 0) return;
  const { player } = turn;
  const state = player.quests.get(quest.key)!;
  const byId = new Map([...state.older, state.latest].map((row) => [row.id, row]));
  for (const { row, counts } of rows) {
    byId.set(row.id, row);
    dropCounts(turn, row);
    if (counts) (player.doc.q ??= {})[row.id] = counts;
  }
  player.dirty.doc = true;
  const { id } = outcome.latest ?? state.latest;
  const last = byId.get(id) ?? outcome.latest!;
  const completions = Math.max(0, state.latest.completions - fewer);
  const times = fewer === 0 ? state.latest.lastCompletedMs : lastCompletedMs;
  const latest: QuestRow = { ...last, completions, lastCompletedMs: times, isChanged: true };
  byId.delete(last.id);
  player.quests.set(quest.key, { latest, older: [...byId.values()] });
  player.dirty.quests.add(quest.key);
  reversal.quests.add(quest.key);
  for (const { row } of rows) tell(turn, quest, row);
};

type Subtracting = { event: PastEvent; reversal: Reversal };

/** Takes an event from what the latest cycle is counting, where the whole of it is not known. */
const subtract = (turn: PlanTurn, quest: CompiledQuest, { event, reversal }: Subtracting): void => {
  const latest = turn.player.quests.get(quest.key)?.latest;
  if (!latest) return;
  const stays = (): void => void reversal.left.add(`quest ${quest.key}: ${STAYS}`);
  if (latest.state === "RESET") return;
  if (latest.state !== "IN_PROGRESS") return mayHaveCounted(latest, event) ? stays() : undefined;
  const version = doneBy(quest, latest);
  let isChanged = false;
  for (const place of version.stepsFor(event.type)) {
    const fate = subtractStep(turn, version.steps[place]!, { row: latest, event });
    if (fate === "STAYS") stays();
    isChanged ||= fate === "TAKEN";
  }
  if (!isChanged) return;
  const percent = questPercent(turn, version, latest);
  storeLatest(turn, quest.key, { ...latest, percent });
  reversal.quests.add(quest.key);
  tell(turn, quest, { ...latest, percent });
};

const mayHaveCounted = ({ startedMs, completedMs }: QuestRow, { at }: PastEvent): boolean =>
  at >= startedMs && (completedMs === null || at <= completedMs);

type OfRow = { row: QuestRow; event: PastEvent };
type Fate = "TAKEN" | "STAYS" | undefined;

/** Takes an event from what a step counts itself: one that LIFETIME counts is taken from its counter. */
const subtractStep = (turn: PlanTurn, step: CompiledStep, { row, event }: OfRow): Fate => {
  const { definition, lifetime } = step;
  if (definition.kind !== "EVENT") return undefined;
  const { startMs, doneMs } = row.steps[definition.key] ?? {};
  if (doneMs !== undefined) return event.at <= doneMs ? "STAYS" : undefined;
  if (lifetime) return "TAKEN";
  const sinceMs = definition.countFrom === "QUEST_START" ? row.startedMs : startMs;
  return sinceMs === undefined || event.at < sinceMs ? undefined : takeSample(turn, step, { row, event });
};

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
