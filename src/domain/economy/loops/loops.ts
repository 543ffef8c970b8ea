import { createHash } from "node:crypto";
import { sql } from "kysely";
import { readRunningState, type RunningState } from "../definitions/running-state.ts";
import { type Cycle, cyclesAmong, cyclesIn, type GraphRule, type Linked, loadLinked } from "./graph.ts";
import { createSizedCache } from "../../kernel/caches.ts";
import { DomainError } from "../../kernel/errors.ts";
import { PROBLEMS_MAX } from "../../kernel/limits.ts";
import { retainedKey, type Transact, Unprepared, type Work } from "../../kernel/work.ts";

/**
 * Maximum number of rules and definitions whose cycles are searched within a transaction, which meanwhile
 * holds its connection and possibly locks: a few ms. Larger sets are searched outside.
 */
const HERE_MAX = 150;
/** How often a transaction is rolled back to search cycles outside, before it searches them itself. */
const UNDONE_MAX = 3;

/** Cycles found outside a transaction, for the transactions that need them. */
const foundCycles = createSizedCache<readonly Cycle[]>({ items: 1_000, bytes: 4 * 1024 * 1024 });

/** Cache key of a search: the rule itself, and the version of everything else in its project. */
const nameOf = (projectId: string, configVersion: number, rule: GraphRule): string =>
  `${projectId} ${configVersion} ${createHash("sha256").update(JSON.stringify(rule)).digest("base64")}`;

type State = { version: number; count: number };

/**
 * Reads the version of a project's definitions, and the number of definitions and rules relevant to cycles.
 */
const stateOf = async ({ db }: Work, projectId: string): Promise<State> => {
  const { rows } = await sql<Record<keyof State, string | number>>`
    select config_version as version,
      (select count(*) from rules where project_id = p.id and status in ('ACTIVE', 'SHADOW'))
        + (select count(*) from definitions where project_id = p.id and status = 'ACTIVE') as count
    from projects p where id = ${projectId}`.execute(db);
  return { version: Number(rows[0]?.version), count: Number(rows[0]?.count) };
};

/** Thrown when finding the cycles of a rule takes too long for a transaction. */
class CyclesUnknown extends Unprepared {
  readonly #projectId: string;
  readonly #rule: GraphRule;

  constructor(projectId: string, rule: GraphRule) {
    super(`the cycles of the rule ${rule.key} are not known`);
    this.#projectId = projectId;
    this.#rule = rule;
  }

  override async prepare(transact: Transact): Promise<void> {
    // The version is read first: later reads may be newer than it, and are then not looked up by it.
    const { version, linked } = await transact(async (work) => ({
      version: (await stateOf(work, this.#projectId)).version,
      linked: await loadLinked(work, this.#projectId),
    }));
    const cycles = await cyclesAmong(linked, this.#rule);
    foundCycles.keep(nameOf(this.#projectId, version, this.#rule), cycles, {
      owner: this.#projectId,
      bytes: Buffer.byteLength(JSON.stringify(cycles)),
    });
  }
}

/**
 * Returns the cycles that a project would have with `rule` among its running rules; only those that include
 * it. With many running rules the transaction is rolled back, and repeated when they are known.
 * @throws CyclesUnknown, for `transact`
 */
export const cyclesWith = async (
  work: Work,
  projectId: string,
  rule: GraphRule,
): Promise<readonly Cycle[]> => {
  const { version, count } = await stateOf(work, projectId);
  const known = foundCycles.get(nameOf(projectId, version, rule));
  if (known) return known;
  if (count > HERE_MAX && work.lanes.undone < UNDONE_MAX) throw new CyclesUnknown(projectId, rule);
  return cyclesAmong(await loadLinked(work, projectId), rule);
};

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
