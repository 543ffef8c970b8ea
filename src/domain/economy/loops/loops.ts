import { type Cycle, cyclesAmong, cyclesIn, type GraphRule, loadLinked } from "./graph.ts";
import { DomainError } from "../../kernel/errors.ts";
import { PROBLEMS_MAX } from "../../kernel/limits.ts";
import { retainedKey, Unprepared, type Work } from "../../kernel/work.ts";

/** Returns the cycles that a project would have with `rule` among its running rules, as far as it is in them. */
export const cyclesWith = async (work: Work, projectId: string, rule: GraphRule): Promise<readonly Cycle[]> =>
  cyclesAmong(await loadLinked(work, projectId), rule);

const pathOf = ({ path }: Cycle): string => path.join(" → ");

export const cycleText = (cycle: Cycle): string => `can set itself off: ${pathOf(cycle)}`;

export const LOOP_ADVICE = "give a rule on the way a limit, a cooldown or stopOnMatch";

/** Refuses a change that lets rules trigger one another endlessly. */
export class EndlessLoops extends DomainError {
  readonly loops: readonly Cycle[];

  constructor(loops: readonly [Cycle, ...Cycle[]]) {
    const details = loops.slice(0, PROBLEMS_MAX).map((loop) => ({ field: "rules", message: loopText(loop) }));
    super("VALIDATION_ERROR", `rules: ${loopText(loops[0])}`, { details, reason: "RULE_LOOP" });
    this.loops = loops;
  }
}

export const loopText = (loop: Cycle): string => `${cycleText(loop)}: ${LOOP_ADVICE}`;

/** Returns the endless loops of a project as the transaction sees it. */
const endlessLoops = async (work: Work, projectId: string): Promise<readonly Cycle[]> => {
  return cyclesIn(await loadLinked(work, projectId)).filter(({ isBounded }) => !isBounded);
};

/** Whether the transaction must know which loops existed before its change. */
const STANDING_WANTED = retainedKey("standing loops are wanted", () => false);

/** Thrown after a change that has loops: it is rolled back to find the loops that exist without it. */
class StandingWanted extends Unprepared {
  readonly #retained: Work["retained"];

  constructor(retained: Work["retained"]) {
    super("the loops of before are not known");
    this.#retained = retained;
  }

  override async prepare(): Promise<void> {
    this.#retained.set(STANDING_WANTED, true);
  }
}

/**
 * Returns the endless loops that projects already have, for `refuseNewLoops`; undefined while nothing
 * requires them.
 */
export const standingLoops = async (
  work: Work,
  projectIds: readonly string[],
): Promise<readonly Cycle[] | undefined> => {
  if (!work.retained.get(STANDING_WANTED)) return undefined;
  const loops: Cycle[] = [];
  for (const projectId of projectIds) loops.push(...(await endlessLoops(work, projectId)));
  return loops;
};

const keysOf = ({ rules }: Cycle): string[] => rules.map(({ key }) => key);

/**
 * Refuses rules that can trigger one another endlessly, unless they could before.
 * @param standing the result of `standingLoops` before the change
 * @throws EndlessLoops; StandingWanted, for `transact`
 */
export const refuseNewLoops = async (
  work: Work,
  projectId: string,
  standing: readonly Cycle[] | undefined,
): Promise<void> => {
  const loops = await endlessLoops(work, projectId);
  if (loops.length === 0) return;
  if (!standing) throw new StandingWanted(work.retained);
  const sets = standing.map((loop) => new Set(keysOf(loop)));
  const [first, ...others] = loops.filter((loop) => {
    const keys = keysOf(loop);
    return !sets.some((set) => keys.every((key) => set.has(key)));
  });
  if (first) throw new EndlessLoops([first, ...others]);
};
