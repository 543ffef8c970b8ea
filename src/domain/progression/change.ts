import { newId } from "../kernel/ids.ts";
import { PacedBudget, paced } from "../kernel/pace.ts";
import { atProjectTime } from "../kernel/project-time.ts";
import { together } from "../kernel/together.ts";
import type { RewardBundle } from "../evaluation/rewards/bundle.ts";
import { limitedKeysOf } from "../evaluation/rewards/shared-keys.ts";
import type { Work } from "../kernel/work.ts";
import { changeEvent, noEffects, openTurn, settleTurn } from "../evaluation/evaluate.ts";
import { ChangeBudget } from "../evaluation/event-accounts.ts";
import { type Changed, changeTogether, type PlayerChange } from "./change-together.ts";
import { lockPlayersById } from "./load.ts";
import { loadStates } from "./load-states.ts";
import { PLAYER_PARTS } from "./parts/parts.ts";
import { loadPlans, projectPlans } from "./plan.ts";
import { saveBatch } from "./save.ts";
import { lockSharedCounters } from "./lock-shared-counters.ts";
import type { PlayerKey } from "./reference.ts";
import type { SharedKey } from "../evaluation/shared-counters.ts";
import { sharedKeysOf } from "../evaluation/shared-needs.ts";
import type { PlanTurn, ProjectPlan } from "../evaluation/project-plan.ts";

export type { Changed } from "./change-together.ts";

const takeChange = together({ phase: "CHANGE", isWrite: true, run: changeTogether });

type ChangeOptions = Omit<PlayerChange<unknown>, "projectId" | "player" | "change">;

/**
 * Changes one player outside event processing (a grant, a score, a profile edit by REST) on the same path as
 * events, so that ledger, stream, boards, outbox and triggered rules behave the same. Requests that share a
 * transaction change their players together.
 * @param player `id`: the UUID, or `ext:` and the integrator's id
 * @param change changes the player in memory, and returns what makes the result once everything that follows
 *   has been applied
 * @throws DomainError NOT_FOUND when the project has no such player; CONFLICT REFERENCE_USED; whatever
 * `change` throws undoes all of it
 */
export const changePlayer = async <T>(
  work: Work,
  { projectId, id }: PlayerKey,
  change: PlayerChange<T>["change"],
  options: ChangeOptions = {},
): Promise<Changed<T>> =>
  (await takeChange(work, { ...options, projectId, player: id, change })) as Changed<T>;

/** What is changed, and which of the counters that players share are locked for it. */
export type ChangeInput = {
  playerIds: readonly string[];
  /** Bundles that the change may give besides XP. */
  gives?: readonly RewardBundle[];
  /** Further counters. */
  counters?: readonly SharedKey[];
  /** Both, where the plan decides. */
  locksOf?: ((plan: ProjectPlan) => Pick<ChangeInput, "gives" | "counters">) | undefined;
};

/**
 * Changes many players in one batch: whatever `change` throws rolls everything back. Unknown ids are ignored;
 * ids of merged players stand for the player that they were merged into, which is changed once.
 */
export const changePlayers = async <T>(
  outer: Work,
  projectId: string,
  { playerIds, locksOf, ...named }: ChangeInput,
  change: (turn: PlanTurn) => T,
): Promise<Changed<T>[]> => {
  const plan = (await loadPlans(outer, [projectId], projectPlans)).get(projectId);
  const players = [...new Set((await lockPlayersById(outer, projectId, playerIds)).values())];
  if (!plan || players.length === 0) return [];
  const work = atProjectTime(outer, plan);
  // Includes the state of archived definitions: a hold can still be settled after its currency is archived.
  await loadStates(work, players, [plan], [...PLAYER_PARTS]);
  const nowMs = work.now.getTime();
  const event = changeEvent(newId(), nowMs);
  const { gives = [], counters = [] } = locksOf?.(plan) ?? named;
  const limited = limitedKeysOf(plan, gives);
  const keys = await paced(sharedKeysOf(plan, [event]), new PacedBudget(Infinity));
  const shared = await lockSharedCounters(work, [...keys, ...limited, ...counters]);
  const effects = noEffects();
  const changed: Changed<T>[] = [];
  const budget = new ChangeBudget();
  for (const player of players) {
    const own = changeEvent(newId(), nowMs);
    const accounts = budget.open();
    const turn = openTurn({ plan, player, event: own, nowMs, effects, shared, accounts });
    const xpBefore = player.xp;
    const value = change(turn);
    settleTurn(turn, xpBefore);
    changed.push({ value, player });
    await budget.close(accounts);
  }
  await saveBatch(work, { players, effects, shared, verdicts: [], done: [] });
  return changed;
};
