import { changeEvent, noEffects, openTurn } from "../../evaluation/evaluate.ts";
import type { PlanTurn } from "../../evaluation/project-plan.ts";
import type { CompiledQuest } from "../../evaluation/quests/compile.ts";
import type { PlayerQuestState, QuestRow } from "../../evaluation/quests/row.ts";
import { type PlayerQuest, showQuest, showRow } from "../../evaluation/quests/show.ts";
import { placesKey } from "../../evaluation/quests/places.ts";
import { readSharedCounters } from "../../progression/lock-shared-counters.ts";
import { notFound } from "../../kernel/errors.ts";
import { newId } from "../../kernel/ids.ts";
import type { Work } from "../../kernel/work.ts";
import type { Player } from "../../players/player.ts";
import { loadStates } from "../../progression/load-states.ts";
import { projectPlans, readPlan } from "../../progression/plan.ts";
import { stateOfPlayer } from "../../progression/players/show.ts";

/** Returns a turn in which a player can be read as of now; nothing of it is saved. */
export const readTurn = async (work: Work, player: Player): Promise<PlanTurn> => {
  const plan = await readPlan(work, player.projectId, projectPlans);
  const state = stateOfPlayer(player);
  await loadStates(work, [state], [plan]);
  const nowMs = work.now.getTime();
  const event = changeEvent(newId(), nowMs);
  const places = [...plan.quests.byKey.values()].flatMap((quest) => placesKey(plan.projectId, quest) ?? []);
  const shared = await readSharedCounters(work, places);
  const parts = { plan, player: state, event, nowMs, effects: noEffects(), shared };
  return openTurn(parts);
};

/** `states`, `category`: those to be listed; default: all. */
export type QuestFilter = { state?: PlayerQuestState | undefined; category?: string | undefined };

const isShown = (quest: CompiledQuest, { state }: PlayerQuest): boolean =>
  state !== "LOCKED" || !quest.definition.hiddenUntilAvailable;

/** Expiry is read, not settled: a row whose time is over is shown as EXPIRED. */
const settledNow = (turn: PlanTurn, shown: PlayerQuest): PlayerQuest => {
  const isOpen = shown.state === "IN_PROGRESS" || shown.state === "COMPLETED";
  const isOver = isOpen && shown.expiresAt !== null && Date.parse(shown.expiresAt) <= turn.nowMs;
  return isOver ? { ...shown, state: "EXPIRED" } : shown;
};

const orderOf = (a: CompiledQuest, b: CompiledQuest): number =>
  a.definition.sortOrder - b.definition.sortOrder || (a.key < b.key ? -1 : 1);

/** Lists a player's quests as of now, those that could be started included, in the order of the project. */
export const listPlayerQuests = async (
  work: Work,
  player: Player,
  { state, category }: QuestFilter = {},
): Promise<PlayerQuest[]> => {
  const turn = await readTurn(work, player);
  const quests = [...turn.project.quests.byKey.values()]
    .filter(({ definition }) => category === undefined || definition.category === category)
    .toSorted(orderOf);
  return quests.flatMap((quest) => {
    const shown = showQuest(turn, quest);
    if (!shown || !isShown(quest, shown)) return [];
    const now = settledNow(turn, shown);
    return state === undefined || now.state === state ? [now] : [];
  });
};

const INCLUDED_MAX = 100;

/** The first quests of the list, for a player's `include`. */
export const listIncludedQuests = async (work: Work, player: Player): Promise<PlayerQuest[]> =>
  (await listPlayerQuests(work, player)).slice(0, INCLUDED_MAX);

/** Finds a quest by its UUID or key. @throws DomainError NOT_FOUND */
export const questOf = ({ quests }: PlanTurn["project"], ref: string): CompiledQuest => {
  const quest =
    quests.byKey.get(ref) ?? [...quests.byKey.values()].find(({ id }) => id === ref.toLowerCase());
  if (!quest) throw notFound("quest");
  return quest;
};

const rowOf = (turn: PlanTurn, quest: CompiledQuest, cycle: string): QuestRow => {
  const state = turn.player.quests.get(quest.key);
  const rows = state ? [state.latest, ...state.older] : [];
  const row = rows.find(({ cycleKey }) => cycleKey === cycle);
  if (!row) throw notFound(`cycle ${cycle}`);
  return row;
};

/**
 * Returns a player's quest: its current cycle, or one that is named, as far as that is the latest or waits to
 * be claimed.
 * @throws DomainError NOT_FOUND for an unknown quest, one that is not offered, or an unknown cycle
 */
export const readPlayerQuest = async (
  work: Work,
  player: Player,
  { questRef, cycle = "current" }: { questRef: string; cycle?: string | undefined },
): Promise<PlayerQuest> => {
  const turn = await readTurn(work, player);
  const quest = questOf(turn.project, questRef);
  if (cycle !== "current") return settledNow(turn, showRow(turn, quest, rowOf(turn, quest, cycle)));
  const shown = showQuest(turn, quest);
  if (!shown || !isShown(quest, shown)) throw notFound("quest");
  return settledNow(turn, shown);
};
