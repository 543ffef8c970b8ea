import { readMetric } from "../metrics/count.ts";
import { asReceived } from "../pauses.ts";
import type { PlayerState } from "../player-state.ts";
import type { PlanTurn } from "../project-plan.ts";
import { beginsByEvent, firstSteps } from "./begins.ts";
import { type CompiledQuest, startsAtOnce } from "./compile.ts";
import { hasPlaceNow } from "./places.ts";
import { countEventFor, settleSteps } from "./progress.ts";
import type { QuestIndex, StatefulQuest } from "./quest-index.ts";
import { inProgress, settleQuest } from "./settle.ts";
import { freeCycle, startQuest } from "./start.ts";
import { isReached } from "./values.ts";
import { type Before, beforeEvent, verdictOf } from "./verdict.ts";

const QUEST_STEPS = 40;

/** Runs something for a quest and charges its steps. @returns false when the steps do not suffice */
const paid = ({ root, warn }: PlanTurn, quest: CompiledQuest, run: () => void): boolean => {
  const { upkeep } = root.accounts;
  if (upkeep.isSpent) {
    warn(`out of steps: quest ${quest.key} and what follows do not count`);
    root.trace?.quest({ questKey: quest.key, counted: false, reason: "STEPS_EXHAUSTED" });
    return false;
  }
  const before = upkeep.spent;
  upkeep.spend(QUEST_STEPS);
  run();
  upkeep.recordSpender(quest.spender, before);
  return true;
};

const beginsByState = (turn: PlanTurn, quest: CompiledQuest): boolean => {
  if (startsAtOnce(quest.definition)) return true;
  return firstSteps(quest).some(({ test }) => test?.(turn) === true);
};

type Begins = (turn: PlanTurn, quest: CompiledQuest) => boolean;

/** Starts a quest of itself, if it may be started now and what has happened begins it. */
const startByItself = (turn: PlanTurn, quest: CompiledQuest, begins: Begins): void => {
  const { player, event, root } = turn;
  if (quest.definition.start.mode !== "AUTO" || player.status !== "ACTIVE" || root.isTimeOnly) return;
  const next = freeCycle(quest, turn, player.quests.get(quest.key), event.at);
  // What the player has abandoned is not started again by itself.
  if (!next || next.again?.state === "ABANDONED") return;
  root.accounts.upkeep.spend(quest.mayStartCost);
  if (begins(turn, quest) && quest.mayStart(turn) && hasPlaceNow(turn, quest))
    startQuest(turn, quest, next, "AUTO");
};

/** Applies the turn's event to one quest, and tells a trace whether it counted. */
const advanceOne = (turn: PlanTurn, published: CompiledQuest): void => {
  const { trace } = turn.root;
  const quest = asReceived(published, turn);
  if (!trace) return advance(turn, quest);
  const before: Before = beforeEvent(turn, quest);
  advance(turn, quest);
  trace.quest(verdictOf(turn, quest, before));
};

const advance = (turn: PlanTurn, quest: CompiledQuest): void => {
  settleQuest(turn, quest);
  if (quest.phase === "PAUSED") return;
  if (!inProgress(turn, quest)) startByItself(turn, quest, beginsByEvent);
  const running = inProgress(turn, quest);
  if (!running) return;
  countEventFor(turn, running.version, running.row);
  settleSteps(turn, running.version, running.row);
};

const hasCounted: Begins = (turn, quest) =>
  firstSteps(quest).some((step) => {
    const value = step.lifetime && readMetric(turn, step.lifetime);
    return value !== undefined && (value !== 0 || isReached(step, value));
  });

/**
 * Applies what counters of a player have become, other than by an event: the quest begins, steps are done.
 * @returns whether that has changed the quest
 */
export const advanceByCounts = (turn: PlanTurn, quest: CompiledQuest): boolean => {
  const { player } = turn;
  if (player.status !== "ACTIVE") return false;
  const before = player.quests.get(quest.key);
  settleQuest(turn, quest);
  if (quest.phase === "PAUSED") return false;
  const begins: Begins = (...of) => hasCounted(...of) || beginsByState(...of);
  if (!inProgress(turn, quest)) startByItself(turn, quest, begins);
  const running = inProgress(turn, quest);
  if (running) settleSteps(turn, running.version, running.row);
  return player.quests.get(quest.key) !== before;
};

/** Step 4 of evaluation: quests that count the event's type, then those that read what has changed. */
export const advanceQuests = (turn: PlanTurn): void => {
  const { quests } = turn.project;
  if (quests.byKey.size === 0) return;
  for (const quest of quests.forEvent(turn.event.type))
    if (!paid(turn, quest, () => advanceOne(turn, quest))) return;
  refreshQuests(turn);
};

/** The inputs of stateful quests when they were last evaluated; `isNew`: not yet for this loaded player. */
type Seen = { values: unknown[]; isNew: boolean };

const SEEN = new WeakMap<PlayerState, Seen>();

/** Records the inputs of quests before a turn changes any of them. */
export const watchQuests = ({ stateful, readers }: QuestIndex, player: PlayerState): void => {
  if (stateful.length === 0 || SEEN.has(player)) return;
  SEEN.set(player, { values: readers.map((read) => read(player)), isNew: true });
};

const READERS_PER_STEP = 4;

const updateInputs = ({ player, project, root }: PlanTurn, { values }: Seen): Set<number> => {
  const changed = new Set<number>();
  const { readers } = project.quests;
  root.accounts.upkeep.spend(readers.length / READERS_PER_STEP);
  readers.forEach((read, place) => {
    const value = read(player);
    if (Object.is(value, values[place])) return;
    values[place] = value;
    changed.add(place);
  });
  return changed;
};

const checkState = (turn: PlanTurn, published: CompiledQuest): void => {
  const quest = asReceived(published, turn);
  settleQuest(turn, quest);
  if (quest.phase === "PAUSED") return;
  if (!inProgress(turn, quest)) startByItself(turn, quest, beginsByState);
  const running = inProgress(turn, quest);
  if (running) settleSteps(turn, running.version, running.row);
};

/** Maximum rounds in which quests that wait for one another follow; later turns continue a longer chain. */
const ROUNDS_MAX = 10;

/** Evaluates the quests that read something that has changed, until nothing changes any more. */
export const refreshQuests = (turn: PlanTurn): void => {
  const { stateful } = turn.project.quests;
  const seen = SEEN.get(turn.player);
  if (!seen || turn.player.status !== "ACTIVE") return;
  for (let round = 0; round < ROUNDS_MAX; round++) {
    const changed = updateInputs(turn, seen);
    const isFirst = round === 0;
    const isAffected = ({ inputs, isTimed }: StatefulQuest): boolean =>
      seen.isNew || (isFirst && isTimed) || inputs.some((place) => changed.has(place));
    const affected = stateful.filter(isAffected);
    seen.isNew = false;
    if (affected.length === 0) return;
    for (const { quest } of affected) if (!paid(turn, quest, () => checkState(turn, quest))) return;
  }
};
