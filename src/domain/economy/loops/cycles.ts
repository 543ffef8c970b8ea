import { createHash } from "node:crypto";
import { sql } from "kysely";
import { createSizedCache } from "../../kernel/sized-cache.ts";
import { Unprepared } from "../../kernel/unprepared.ts";
import type { Transact, Work } from "../../kernel/work.ts";
import { type Cycle, cyclesAmong, type GraphRule, loadLinked } from "./graph.ts";

/**
 * Maximum number of rules and definitions whose cycles are searched within a transaction, which meanwhile
 * holds its connection and possibly locks: a few ms. Larger sets are searched outside.
 */
export const HERE_MAX = 150;
/** How often a transaction is rolled back to search cycles outside, before it searches them itself. */
export const UNDONE_MAX = 3;

/** Cycles found outside a transaction, for the transactions that need them. */
const found = createSizedCache<readonly Cycle[]>({ items: 1_000, bytes: 4 * 1024 * 1024 });

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
    found.keep(nameOf(this.#projectId, version, this.#rule), cycles, {
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
  const known = found.get(nameOf(projectId, version, rule));
  if (known) return known;
  if (count > HERE_MAX && work.lanes.undone < UNDONE_MAX) throw new CyclesUnknown(projectId, rule);
  return cyclesAmong(await loadLinked(work, projectId), rule);
};
