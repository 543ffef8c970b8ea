import { checkActive } from "../../evaluation/active.ts";
import { bundlesOf as bundlesOfAdventure } from "../../evaluation/adventures/compile.ts";
import type { PlanTurn, ProjectPlan } from "../../evaluation/project-plan.ts";
import {
  advanceNow,
  completeNow,
  RESETTABLE,
  startNow,
  whyNotReset,
} from "../../evaluation/quests/change.ts";
import type { CompiledQuest } from "../../evaluation/quests/compile.ts";
import { doneBy } from "../../evaluation/quests/context.ts";
import { abandonQuest, claimQuest, failQuest, resetQuest } from "../../evaluation/quests/finish.ts";
import type { QuestRow, StartedBy } from "../../evaluation/quests/row.ts";
import { placesKey } from "../../evaluation/quests/places.ts";
import type { StartProblem } from "../../evaluation/quests/start.ts";
import { settleQuest } from "../../evaluation/quests/settle.ts";
import { type PlayerQuest, showRow } from "../../evaluation/quests/show.ts";
import type { RewardBundle } from "../../evaluation/rewards/bundle.ts";
import type { SharedKey } from "../../evaluation/shared-counters.ts";
import { conflict } from "../../kernel/errors.ts";
import type { Cause } from "../../kernel/events/events.ts";
import type { Work } from "../../kernel/work.ts";
import { changePlayer } from "../../progression/change.ts";
import { lockPlan } from "../../progression/locked-plan.ts";
import { questOf } from "./player-quests.ts";

/** `id`: the UUID, or `ext:` and the integrator's id. */
export type PlayerRef = { projectId: string; id: string };
type Ref = PlayerRef;

const bundlesOf = (
  { adventures }: ProjectPlan,
  { key, definition, earlier }: CompiledQuest,
): RewardBundle[] => [
  ...adventures.ofQuest(key).flatMap(bundlesOfAdventure),
  ...[definition, ...[...earlier.values()].map((one) => one.definition)].flatMap(({ rewards, steps }) => [
    rewards,
    ...steps.flatMap((step) => (step.rewards ? [step.rewards] : [])),
  ]),
];

/** Returns what is locked for a change of a quest: what it may give, and its places. */
export const locksOfQuest = (
  plan: ProjectPlan,
  quest: CompiledQuest,
): { gives: RewardBundle[]; counters: SharedKey[] } => {
  const places = placesKey(plan.projectId, quest);
  return { gives: bundlesOf(plan, quest), counters: places ? [places] : [] };
};

/** Changes a quest of a player in memory. @returns the row to show; default: that of the latest cycle */
type Change = (turn: PlanTurn, quest: CompiledQuest) => QuestRow | undefined;

/** Changes a quest of a player after settling it. */
const changeQuest = async (work: Work, player: Ref, questRef: string, change: Change): Promise<PlayerQuest> =>
  // Locked, so that the limits of rewards that may be given are locked too.
  changeQuestOf(work, player, { plan: await lockPlan(work, player.projectId), questRef }, change);

/** As `changeQuest`, by the plan that this transaction has locked. */
export const changeQuestOf = async (
  work: Work,
  player: Ref,
  { plan, questRef }: { plan: ProjectPlan; questRef: string },
  change: Change,
): Promise<PlayerQuest> => {
  const named = questOf(plan, questRef);
  const locks = locksOfQuest(plan, named);
  const applied = (turn: PlanTurn) => {
    const quest = questOf(turn.project, questRef);
    checkActive(turn.player);
    settleQuest(turn, quest);
    const row = change(turn, quest);
    return () => {
      const state = turn.player.quests.get(quest.key)!;
      const now = [state.latest, ...state.older].find(({ id }) => id === row?.id) ?? state.latest;
      return showRow(turn, quest, now);
    };
  };
  return (await changePlayer(work, player, applied, locks)).value;
};

/** Throws why a change is not possible. */
const refuse = (problem: string | undefined, reason: string): void => {
  if (problem !== undefined) throw conflict(reason, problem);
};

const refuseStart = (problem: StartProblem | undefined): void => {
  if (problem) throw conflict(problem.reason, problem.message);
};

/**
 * Starts a quest for a player.
 * @throws DomainError NOT_FOUND; CONFLICT: QUEST_NOT_AVAILABLE, LIMIT_REACHED, INSUFFICIENT_FUNDS,
 * PLAYER_INACTIVE
 */
export const startPlayerQuest = (
  work: Work,
  player: Ref,
  { questRef, startedBy }: { questRef: string; startedBy: StartedBy },
): Promise<PlayerQuest> =>
  changeQuest(work, player, questRef, (turn, quest) => {
    refuseStart(startNow(turn, quest, startedBy));
    return undefined;
  });

/**
 * Adds to what a step of a quest in progress has counted, or sets it.
 * @throws DomainError NOT_FOUND; CONFLICT INVALID_STATE
 */
export const advancePlayerQuest = (
  work: Work,
  player: Ref,
  { questRef, ...by }: { questRef: string; stepKey: string } & ({ amount: number } | { set: number }),
): Promise<PlayerQuest> =>
  changeQuest(work, player, questRef, (turn, quest) => {
    if (quest.phase === "PAUSED") throw conflict("INVALID_STATE", "the quest is PAUSED");
    refuse(advanceNow(turn, quest, by), "INVALID_STATE");
    return undefined;
  });

/** Ends a quest in progress at the player's wish. @throws DomainError NOT_FOUND; CONFLICT INVALID_STATE */
export const abandonPlayerQuest = (work: Work, player: Ref, questRef: string): Promise<PlayerQuest> =>
  changeQuest(work, player, questRef, (turn, quest) => {
    const row = turn.player.quests.get(quest.key)?.latest;
    if (row?.state !== "IN_PROGRESS") throw conflict("INVALID_STATE", "the quest is not in progress");
    abandonQuest(turn, doneBy(quest, row), row);
    return row;
  });

/** Why nothing can be claimed: `last` is the last cycle that was asked for. */
const noClaim = (last: QuestRow | undefined, cycleKey: string | undefined): Error => {
  if (last?.state === "CLAIMED") return conflict("ALREADY_CLAIMED", "the rewards have been claimed");
  if (last?.state === "EXPIRED" && last.completedMs !== null)
    return conflict("CLAIM_EXPIRED", "the time to claim the rewards is over");
  const which = cycleKey === undefined ? "the quest" : `the cycle ${cycleKey}`;
  const is = last ? `is ${last.state}` : "has nothing to claim";
  return conflict("INVALID_STATE", `${which} is not completed: it ${is}`);
};

/**
 * Claims the rewards of a completed quest; of several cycles those of the one that is named, or the oldest.
 * @throws DomainError NOT_FOUND; CONFLICT: ALREADY_CLAIMED, CLAIM_EXPIRED, INVALID_STATE
 */
export const claimPlayerQuest = (
  work: Work,
  player: Ref,
  { questRef, cycleKey }: { questRef: string; cycleKey?: string | undefined },
): Promise<PlayerQuest> =>
  changeQuest(work, player, questRef, (turn, quest) => {
    const state = turn.player.quests.get(quest.key);
    const rows = state ? [...state.older, state.latest] : [];
    const named = cycleKey === undefined ? rows : rows.filter((one) => one.cycleKey === cycleKey);
    const row = named.find((one) => one.state === "COMPLETED");
    if (row) {
      claimQuest(turn, doneBy(quest, row), row);
      return row;
    }
    throw noClaim(named.at(-1), cycleKey);
  });

/**
 * Puts a quest back, so that it can be started again in its cycle; rewards of steps are not granted again.
 * @throws DomainError NOT_FOUND; CONFLICT INVALID_STATE
 */
export const resetPlayerQuest = (work: Work, player: Ref, questRef: string): Promise<PlayerQuest> =>
  changeQuest(work, player, questRef, (turn, quest) => {
    const row = turn.player.quests.get(quest.key)?.latest;
    if (!row || !RESETTABLE.has(row.state)) throw conflict("INVALID_STATE", whyNotReset(row?.state));
    resetQuest(turn, row, quest.key);
    return row;
  });

/** Ends a quest in progress as FAILED. @throws DomainError NOT_FOUND; CONFLICT INVALID_STATE */
export const failPlayerQuest = (
  work: Work,
  player: Ref,
  { questRef, cause }: { questRef: string; cause: Cause },
): Promise<PlayerQuest> =>
  changeQuest(work, player, questRef, (turn, quest) => {
    const row = turn.player.quests.get(quest.key)?.latest;
    if (row?.state !== "IN_PROGRESS") throw conflict("INVALID_STATE", "the quest is not in progress");
    failQuest(turn, { quest: doneBy(quest, row), row, cause });
    return row;
  });

/**
 * Completes a quest whatever its steps have counted, with all rewards; it is started where it may be.
 * @throws DomainError NOT_FOUND; CONFLICT: QUEST_NOT_AVAILABLE, LIMIT_REACHED
 */
export const completePlayerQuest = (work: Work, player: Ref, questRef: string): Promise<PlayerQuest> =>
  changeQuest(work, player, questRef, (turn, quest) => {
    refuseStart(completeNow(turn, quest, "API"));
    return undefined;
  });
