import { readRunningState, type RunningState } from "../definitions/running-state.ts";
import { DomainError } from "../../kernel/errors.ts";
import { createSizedCache } from "../../kernel/sized-cache.ts";
import { Unprepared } from "../../kernel/unprepared.ts";
import type { Work } from "../../kernel/work.ts";
import { retainedKey } from "../../kernel/work-state.ts";
import { HERE_MAX, UNDONE_MAX } from "./cycles.ts";
import { type Cycle, cyclesIn, type Linked, loadLinked } from "./graph.ts";
import { LOOP_ADVICE, cycleText } from "./loop-text.ts";
import { PROBLEMS_MAX } from "../../kernel/limits.ts";

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

/** Endless loops, cached by the digest of the documents that they follow from. */
const known = createSizedCache<readonly Cycle[]>({ items: 1_000, bytes: 4 * 1024 * 1024 });

/** Input of a search for loops: the digest of the project's documents, and their links. */
type Searched = { projectId: string; name: string; linked: Linked };

const find = async ({ projectId, name, linked }: Searched): Promise<readonly Cycle[]> => {
  const loops = (await cyclesIn(linked)).filter(({ isBounded }) => !isBounded);
  return known.keep(name, loops, { owner: projectId, bytes: Buffer.byteLength(JSON.stringify(loops)) });
};

/** Thrown when finding the loops takes too long for a transaction. */
class LoopsUnknown extends Unprepared {
  readonly #searched: Searched;

  constructor(searched: Searched) {
    super("the loops of a project's rules are not known");
    this.#searched = searched;
  }

  override async prepare(): Promise<void> {
    await find(this.#searched);
  }
}

type SearchState = { projectId: string; state: RunningState; isLong?: boolean | undefined };

/**
 * Returns the endless loops of a project as the transaction sees it. @throws LoopsUnknown, unless `isLong`
 */
const endlessLoops = async (
  work: Work,
  { projectId, state, isLong }: SearchState,
): Promise<readonly Cycle[]> => {
  const { links, rules, definitions } = state;
  if (rules === 0) return [];
  const found = known.get(links);
  if (found) return found;
  const linked = await loadLinked(work, projectId);
  const isHere = isLong === true || rules + definitions <= HERE_MAX || work.lanes.undone >= UNDONE_MAX;
  const searched = { projectId, name: links, linked };
  if (!isHere) throw new LoopsUnknown(searched);
  return find(searched);
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
 * @throws LoopsUnknown
 */
export const standingLoops = async (
  work: Work,
  projectIds: readonly string[],
): Promise<readonly Cycle[] | undefined> => {
  if (!work.retained.get(STANDING_WANTED)) return undefined;
  const loops: Cycle[] = [];
  for (const projectId of projectIds) {
    const state = await readRunningState(work, projectId);
    loops.push(...(await endlessLoops(work, { projectId, state })));
  }
  return loops;
};

const keysOf = ({ rules }: Cycle): string[] => rules.map(({ key }) => key);

/**
 * Refuses rules that can trigger one another endlessly, unless they could before.
 * @param now what runs after the change; `standing`: the result of `standingLoops` before it
 * @throws EndlessLoops; LoopsUnknown, StandingWanted, for `transact`
 */
export const refuseNewLoops = async (
  work: Work,
  projectId: string,
  { standing, ...now }: Omit<SearchState, "projectId"> & { standing: readonly Cycle[] | undefined },
): Promise<void> => {
  const loops = await endlessLoops(work, { projectId, ...now });
  if (loops.length === 0) return;
  if (!standing) throw new StandingWanted(work.retained);
  const sets = standing.map((loop) => new Set(keysOf(loop)));
  const [first, ...others] = loops.filter((loop) => {
    const keys = keysOf(loop);
    return !sets.some((set) => keys.every((key) => set.has(key)));
  });
  if (first) throw new EndlessLoops([first, ...others]);
};
