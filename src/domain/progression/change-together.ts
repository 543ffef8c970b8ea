import assert from "node:assert/strict";
import { changeEvent, noEffects, openTurn, settleTurn } from "../evaluation/evaluate.ts";
import { ChangeBudget, stepsOf } from "../evaluation/event-accounts.ts";
import type { Effects } from "../evaluation/effects.ts";
import type { Moment } from "../evaluation/boards/list.ts";
import type { PlayerState } from "../evaluation/player-state.ts";
import type { PlanTurn, ProjectPlan } from "../evaluation/project-plan.ts";
import type { RewardBundle } from "../evaluation/rewards/bundle.ts";
import { limitedKeysOf } from "../evaluation/rewards/shared-keys.ts";
import { counterIdOf, type SharedCounters, type SharedKey } from "../evaluation/shared-counters.ts";
import { sharedKeysOf } from "../evaluation/shared-needs.ts";
import { saveTurn } from "../evaluation/snapshot.ts";
import { newId } from "../kernel/ids.ts";
import { PacedBudget, paced } from "../kernel/pace.ts";
import { atProjectTime } from "../kernel/project-time.ts";
import { Apart, type Outcome } from "../kernel/together.ts";
import type { Work } from "../kernel/work.ts";
import { loadStates, partsFor } from "./load-states.ts";
import { lockRefs } from "./lock-refs.ts";
import { planOf } from "./locked-plan.ts";
import { lockFreeCounters, lockSharedCounters } from "./lock-shared-counters.ts";
import type { PlayerPart } from "./parts/part.ts";
import { PLAYER_PARTS } from "./parts/parts.ts";
import { noReferences, openReferences, type References } from "./reference-use.ts";
import { saveBatch } from "./save.ts";

/** A change of one player outside event processing. */
export type PlayerChange<T> = {
  projectId: string;
  /** UUID, or `ext:` and the integrator's id. */
  player: string;
  /**
   * Changes the player in memory; what it throws undoes this change. `key`: the ledger key of the change.
   * @returns what makes the result once everything that follows has been applied
   */
  change: (turn: PlanTurn, key: string) => () => T;
  /** Bundles that the change may give besides XP, so that the counters they share are locked. */
  gives?: readonly RewardBundle[] | undefined;
  /** Further counters to be locked. */
  counters?: readonly SharedKey[] | undefined;
  /** Loads only what the active definitions may touch. */
  isOfActive?: boolean | undefined;
  /** Moments of the change whose lists are loaded; default: now. */
  moments?: readonly Moment[] | undefined;
  /** A name for the change that serves the player once. */
  reference?: string | undefined;
};

export type Changed<T> = { value: T; player: PlayerState };

/** Steps of a shared transaction after which the others share the next one: about 100 ms. */
const SHARED_STEPS_MAX = 500_000;

const NONE: ReadonlySet<string> = new Set();

type Located = { change: PlayerChange<unknown>; player: PlayerState };

/**
 * Changes players of one project in order, each change as if it were alone: what one throws is its outcome.
 * A constant number of statements.
 */
export const changeTogether = async (
  outer: Work,
  changes: readonly PlayerChange<unknown>[],
): Promise<Outcome<Changed<unknown>>[]> => {
  const { projectId } = changes[0]!;
  assert(
    changes.every((change) => change.projectId === projectId),
    "a transaction changes players of one project",
  );
  const plan = await planOf(outer, projectId);
  const work = atProjectTime(outer, plan);
  const locked = await lockRefs(
    work,
    projectId,
    changes.map(({ player }) => player),
  );
  const located = changes.flatMap((change): Located[] => {
    const found = locked.get(change.player)!;
    return "player" in found ? [{ change, player: found.player }] : [];
  });
  const turns = located.length === 0 ? undefined : await openTurns(work, plan, located);
  const outcomes: Outcome<Changed<unknown>>[] = [];
  for (const change of changes) {
    const found = locked.get(change.player)!;
    outcomes.push("error" in found ? found : await turns!.run(change, found.player));
  }
  await turns?.save();
  return outcomes;
};

/** Parts to load: those that all changes need. */
const partsOf = (plan: ProjectPlan, located: readonly Located[]): readonly PlayerPart[] =>
  located.every(({ change }) => change.isOfActive) ? partsFor([plan]) : PLAYER_PARTS;

const openTurns = async (work: Work, plan: ProjectPlan, located: readonly Located[]) => {
  const players = [...new Set(located.map(({ player }) => player))];
  for (const { change, player } of located)
    if (change.moments) player.moments = [...player.moments, ...change.moments];
  await loadStates(work, players, [plan], partsOf(plan, located));
  const event = changeEvent(newId(), work.now.getTime());
  const keysOf = ({ gives = [], counters = [] }: PlayerChange<unknown>): SharedKey[] => [
    ...limitedKeysOf(plan, gives),
    ...counters,
  ];
  const limited = located.flatMap(({ change }) => keysOf(change));
  const ofRules = await paced(sharedKeysOf(plan, [event]), new PacedBudget(Infinity));
  const { counters: shared, held } = work.isShared
    ? await lockFreeCounters(work, [...ofRules, ...limited])
    : { counters: await lockSharedCounters(work, [...ofRules, ...limited]), held: NONE };
  /** Whether a change may count something that others have locked. */
  const isHeld = (change: PlayerChange<unknown>): boolean =>
    held.size > 0 && [...ofRules, ...keysOf(change)].some((key) => held.has(counterIdOf(key)));
  const asked = located.flatMap(({ change: { reference }, player }) =>
    reference === undefined ? [] : [{ playerId: player.id, reference }],
  );
  const references = asked.length === 0 ? noReferences() : await openReferences(work, plan.projectId, asked);
  return new Turns({ work, plan, shared, isHeld, references, isOne: located.length === 1 });
};

type TurnsParts = {
  work: Work;
  plan: ProjectPlan;
  shared: SharedCounters;
  isHeld: (change: PlayerChange<unknown>) => boolean;
  references: References;
  /** Then nothing is saved if the change fails, and nothing has to be restored. */
  isOne: boolean;
};

/** Turns of changes that are saved together. */
class Turns {
  readonly #parts: TurnsParts;
  readonly #effects: Effects = noEffects();
  readonly #changed = new Set<PlayerState>();
  readonly #pace = new PacedBudget(Infinity);

  constructor(parts: TurnsParts) {
    this.#parts = parts;
  }

  async run(change: PlayerChange<unknown>, player: PlayerState): Promise<Outcome<Changed<unknown>>> {
    if (this.#pace.spent > SHARED_STEPS_MAX) return { error: new Apart("NEXT", "others have taken long") };
    const { work, plan, shared, isHeld } = this.#parts;
    if (isHeld(change)) return { error: new Apart("ALONE", "others hold a counter that it may need") };
    const nowMs = work.now.getTime();
    const budget = new ChangeBudget();
    const accounts = budget.open();
    const event = changeEvent(newId(), nowMs);
    const turn = openTurn({ plan, player, event, nowMs, effects: this.#effects, shared, accounts });
    const outcome = this.#apply(turn, change);
    await budget.close(accounts);
    this.#pace.spend(Math.max(budget.spent, stepsOf(accounts)));
    await this.#pace.pause();
    return outcome;
  }

  #apply(turn: PlanTurn, { change, reference }: PlayerChange<unknown>): Outcome<Changed<unknown>> {
    const { references, isOne } = this.#parts;
    const { player } = turn;
    const undo = isOne ? undefined : saveTurn(turn);
    const xpBefore = player.xp;
    try {
      const key = references.keyOf(player.id, reference);
      const answer = change(turn, key);
      settleTurn(turn, xpBefore);
      const value = answer();
      references.use(player.id, reference);
      this.#changed.add(player);
      return { value: { value, player } };
    } catch (error) {
      undo?.();
      return { error };
    }
  }

  /** Writes all changes in one statement. */
  async save(): Promise<void> {
    if (this.#changed.size === 0) return;
    const { work, shared } = this.#parts;
    const players = [...this.#changed];
    await saveBatch(work, { players, effects: this.#effects, shared, verdicts: [], done: [] });
  }
}
