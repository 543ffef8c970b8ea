import { newId } from "../kernel/ids.ts";
import { Pace } from "../kernel/slices.ts";
import { atProjectTime, type Work } from "../kernel/work.ts";
import { changeEvent, openTurn, settleTurn } from "../evaluation/evaluate.ts";
import { ChangeCost } from "../evaluation/event-cost.ts";
import { loadStates } from "./load-states.ts";
import type { PlayerPart } from "./parts/part.ts";
import { planOf } from "./plan.ts";
import type { PlayerState } from "../evaluation/player-state.ts";
import type { PlanTurn, ProjectPlan } from "../evaluation/project-plan.ts";
import { saveBatch } from "./save.ts";
import { CountersAsked, learnAsked, openCounters } from "./lock-shared-counters.ts";
import { noEffects, type Effects } from "../evaluation/effects.ts";
import type { Turn } from "../evaluation/turn.ts";

/** Players of one project that are changed together. */
export type GroupChange = {
  plan: ProjectPlan;
  effects: Effects;
  /** Opens a turn for one of the players; `settle` it before opening the next. */
  open(player: PlayerState): PlanTurn;
  /** Completes a turn by applying its follow-up effects, and yields to the event loop in between. */
  settle(turn: PlanTurn): Promise<void>;
  /** Writes all changes in one statement. */
  save(): Promise<void>;
};

type GroupChangeOptions = {
  projectId: string;
  /** Locks the players; called once the project's definitions are locked. */
  lock: () => Promise<readonly PlayerState[]>;
  /** The parts to load; default: those that the definitions need. */
  parts?: readonly PlayerPart[];
  /** Changes the plan under which the players are loaded and changed. */
  planFor?: (plan: ProjectPlan) => Promise<ProjectPlan>;
};

/**
 * Locks and loads several players to change them outside event processing, as changePlayer does for one, in a
 * constant number of statements.
 */
export const openGroupChange = async (
  outer: Work,
  { projectId, lock, parts, planFor = async (plan) => plan }: GroupChangeOptions,
): Promise<GroupChange> => {
  const plan = await planFor(await planOf(outer, projectId));
  const work = atProjectTime(outer, plan);
  const players = [...new Set(await lock())];
  await loadStates(work, players, [plan], parts && [...parts]);
  const effects = noEffects();
  const nowMs = work.now.getTime();
  const { type } = changeEvent(newId(), nowMs);
  const { shared } = await openCounters(work, [{ plan, type, atMs: nowMs }]);
  const xpBefore = new Map<Turn, number>();
  const [costs, pace] = [new ChangeCost(), new Pace()];
  return {
    plan,
    effects,
    open: (player) => {
      const own = changeEvent(newId(), nowMs);
      const turn = openTurn({ plan, player, event: own, nowMs, effects, shared, cost: costs.open() });
      xpBefore.set(turn, player.xp);
      return turn;
    },
    settle: async (turn) => {
      settleTurn(turn, xpBefore.get(turn)!);
      costs.close(turn.root.cost);
      await pace.pause();
    },
    save: () => {
      const asked = shared.asked();
      if (asked.length > 0) {
        learnAsked({ plan, type }, asked);
        throw new CountersAsked(work, asked);
      }
      return saveBatch(work, { players, effects, shared, verdicts: [], done: [] });
    },
  };
};

/** As `openGroupChange`, for the one player that `lock` locks. */
export const openOneChange = async (
  work: Work,
  projectId: string,
  lock: () => Promise<PlayerState>,
): Promise<GroupChange & { player: PlayerState }> => {
  let player: PlayerState | undefined;
  const change = await openGroupChange(work, { projectId, lock: async () => [(player = await lock())] });
  return { ...change, player: player! };
};
