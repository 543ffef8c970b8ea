import assert from "node:assert/strict";
import { hash } from "node:crypto";
import { sql } from "kysely";
import type { Moment } from "../evaluation/boards/board.ts";
import { noEffects, type Effects } from "../evaluation/effects.ts";
import { changeEvent, openTurn, saveSettled, settleTurn } from "../evaluation/evaluate.ts";
import { ChangeCost, type EventCost } from "../evaluation/event-cost.ts";
import type { PlayerState } from "../evaluation/player-state.ts";
import type { PlanTurn, ProjectPlan } from "../evaluation/project-plan.ts";
import { createSharedCounters, type SharedCounters } from "../evaluation/shared-counters.ts";
import { conflict } from "../kernel/errors.ts";
import { isId, newId } from "../kernel/ids.ts";
import { Pace } from "../kernel/slices.ts";
import { kept } from "../kernel/statements.ts";
import { Apart, type Outcome, together } from "../kernel/together.ts";
import { atProjectTime, localKey, type Work } from "../kernel/work.ts";
import { unknownPlayer } from "../players/player-refs.ts";
import { loadStates, partsFor } from "./load-states.ts";
import { COLUMNS, type FoundRow, lockPlayersById, playersOf } from "./load.ts";
import { lockAsked } from "./lock-shared-counters.ts";
import { findPlan, planOf } from "./plan.ts";
import type { PlayerPart } from "./parts/part.ts";
import { PLAYER_PARTS } from "./parts/player-parts.ts";
import { saveBatch } from "./save.ts";

/** A player that a request names, or the error of the request. */
type LockedRef = { player: PlayerState } | { error: Error };

/** SQL for `s(ref, id)`: the players that references stand for; merged ones are their merge target. */
const namedBy = (projectId: string, refs: readonly string[]) => {
  const ids = refs.filter(isId).map((f) => ({ f, i: f }));
  const names = refs.filter((ref) => ref.startsWith("ext:")).map((f) => ({ f, u: f.slice("ext:".length) }));
  return sql`s as materialized (
    select r.f as ref, coalesce(q.merged_into, q.id) as id
    from json_to_recordset(${JSON.stringify(ids)}::json) as r(f text, i uuid)
    join players q on q.project_id = ${projectId} and q.id = r.i
    union all
    select r.f, coalesce(q.merged_into, q.id)
    from json_to_recordset(${JSON.stringify(names)}::json) as r(f text, u text)
    join players q on q.project_id = ${projectId} and q.external_user_id = r.u)`;
};

/**
 * Locks the players that UUIDs or `ext:…` references stand for and reads them, in id order and in one
 * statement. In a shared transaction nobody is waited for: a player that others hold is an error `Apart`.
 * @returns by reference
 */
const lockRefs = async (
  work: Work,
  projectId: string,
  refs: readonly string[],
): Promise<Map<string, LockedRef>> => {
  const asked = [...new Set(refs)];
  const rows = await lockNamed(work, projectId, asked);
  const isMerged = new Set(rows.filter((row) => row.mergedInto != null).map(({ ref }) => ref));
  const free = rows.filter(
    (row): row is FoundRow => row.id !== null && !(work.isShared && isMerged.has(row.ref)),
  );
  const players = await playersOf(work, free, ({ ref }) => ref);
  const known = new Set(rows.map(({ ref }) => ref));
  const lockedOf = (ref: string): LockedRef => {
    const player = players.get(ref);
    if (player) return { player };
    const isHeld = work.isShared && known.has(ref);
    return { error: isHeld ? new Apart("ALONE", "others hold its player") : unknownPlayer(ref) };
  };
  return new Map(asked.map((ref) => [ref, lockedOf(ref)]));
};

type MaybeRow = FoundRow | { id: null; ref: string; mergedInto: null };

/** In a shared transaction the rows of players that others hold are empty. */
const lockNamed = async (
  { db, isShared }: Work,
  projectId: string,
  refs: readonly string[],
): Promise<MaybeRow[]> => {
  const found = await kept(
    db,
    sql<MaybeRow>`
    with ${namedBy(projectId, refs)},
    k as materialized (
      select ${COLUMNS}, s.ref as asked from s join players t on t.project_id = ${projectId} and t.id = s.id
      order by t.project_id, t.id for update of t ${isShared ? sql`skip locked` : sql``})
    select k.*, s.ref from s left join k on k.asked = s.ref`,
  );
  return found.rows;
};

/** A reference that a change of a player is requested under. */
type ReferenceUse = { playerId: string; reference: string };

/**
 * Returns the ledger key of a change requested under a reference, such as an order number. Keys are part of
 * the hash chain and stay when a player is erased, so the text, which may be personal data, is hashed.
 */
const referenceKey = (reference: string): string => `api:ref:${hash("sha256", reference, "hex")}`;

const idOf = ({ playerId, reference }: ReferenceUse): string => `${playerId} ${reference}`;

/**
 * Returns the ledger key of a change. A reference can be used once per player, for any purpose.
 * @param used by `idOf`
 * @throws DomainError CONFLICT REFERENCE_USED
 */
const keyOf = (used: ReadonlySet<string>, playerId: string, reference: string | undefined): string => {
  if (reference === undefined) return `api:${newId()}`;
  if (used.has(idOf({ playerId, reference })))
    throw conflict("REFERENCE_USED", `reference ${reference} was used for this player before`);
  return referenceKey(reference);
};

/**
 * Returns those uses, by `idOf`, of which the player, or one merged into it, has a ledger line or hold already.
 * The result only holds while the players are locked. One statement, or none without uses.
 */
const readUsed = async (
  { db }: Work,
  projectId: string,
  uses: readonly ReferenceUse[],
): Promise<Set<string>> => {
  if (uses.length === 0) return new Set();
  // The second key is of the original format.
  const rows = uses.flatMap(({ playerId, reference }, n) =>
    [referenceKey(reference), `api:ref:${reference}`].map((k) => ({ n, p: playerId, f: reference, k })),
  );
  const found = await sql<{ n: number }>`
    with r as materialized (
      select * from json_to_recordset(${JSON.stringify(rows)}::json) as r(n int, p uuid, f text, k text)),
    own as materialized (
      select n, f, k, p as id from r
      union all
      select r.n, r.f, r.k, q.id from r
      join players q on q.project_id = ${projectId} and q.merged_into = r.p)
    select own.n from own join ledger_entries l
      on l.project_id = ${projectId} and l.player_id = own.id and l.idempotency_key = own.k
    union select own.n from own join currency_holds h
      on h.project_id = ${projectId} and h.player_id = own.id and h.reference = own.f`.execute(db);
  return new Set(found.rows.map(({ n }) => idOf(uses[n]!)));
};

/** A change of one player outside event processing. */
type PlayerChange<T> = {
  projectId: string;
  /** UUID, or `ext:` and the integrator's id. */
  player: string;
  /**
   * Changes the player in memory; what it throws undoes this change, and counters that it is the first to
   * ask for do, too: then it is called again. `key`: the ledger key of the change.
   * @returns what makes the result once everything that follows has been applied
   */
  change: (turn: PlanTurn, key: string) => () => T;
  /** Loads only what the active definitions may touch. */
  isOfActive?: boolean | undefined;
  /** Moments of the change whose lists are loaded; default: now. */
  moments?: readonly Moment[] | undefined;
  /** A name for the change that serves the player once. */
  reference?: string | undefined;
};

type Changed<T> = { value: T; player: PlayerState };

/** Time of a shared transaction after which the others share the next one, in ms. */
const SHARED_MS = 200;

type Located = { change: PlayerChange<unknown>; player: PlayerState };

/**
 * Changes players of one project in order, each change as if it were alone: what one throws is its outcome.
 * A constant number of statements.
 */
const changeTogether = async (
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
  const asked = located.flatMap(({ change: { reference }, player }) =>
    reference === undefined ? [] : [{ playerId: player.id, reference }],
  );
  const used = await readUsed(work, plan.projectId, asked);
  return new Turns({ work, plan, shared: createSharedCounters("ASKED"), used });
};

/**
 * Runs a turn, and again with the counters that it asks for until it asks for no more. Of what is undone
 * nothing stays. @returns undefined where others hold some, in a shared transaction
 */
const runCounted = async <T>(
  { work, shared }: { work: Work; shared: SharedCounters },
  openTurnOf: () => PlanTurn,
  run: (turn: PlanTurn) => Outcome<T>,
): Promise<Outcome<T> | undefined> => {
  for (;;) {
    const turn = openTurnOf();
    const undo = saveSettled(turn);
    const outcome = run(turn);
    const isWhole = shared.asked().length === 0;
    if (!isWhole || "error" in outcome) undo();
    if (isWhole) return outcome;
    if (!(await lockAsked(work, shared))) return undefined;
  }
};

const held = (): Apart => new Apart("ALONE", "others hold a counter that it needs");

type TurnsParts = {
  work: Work;
  plan: ProjectPlan;
  shared: SharedCounters;
  /** References that the players have used, by `idOf`. */
  used: Set<string>;
  /** What the changes may cost together; absent: each as much as an event. */
  costs?: ChangeCost;
};

/** Turns of changes that are saved together. */
class Turns {
  readonly #parts: TurnsParts;
  readonly #effects: Effects = noEffects();
  readonly #changed = new Set<PlayerState>();
  readonly #pace = new Pace(SHARED_MS);

  constructor(parts: TurnsParts) {
    this.#parts = parts;
  }

  async run(change: PlayerChange<unknown>, player: PlayerState): Promise<Outcome<Changed<unknown>>> {
    const { work, plan, shared, costs } = this.#parts;
    if (work.isShared && this.#pace.isOver && this.#changed.size > 0)
      return { error: new Apart("NEXT", "others have taken long") };
    const nowMs = work.now.getTime();
    let cost: EventCost | undefined;
    const outcome = await runCounted(
      this.#parts,
      () => {
        const event = changeEvent(newId(), nowMs);
        cost = costs?.open();
        return openTurn({ plan, player, event, nowMs, effects: this.#effects, shared, cost });
      },
      (turn) => this.#apply(turn, change),
    );
    if (!outcome) return { error: held() };
    if (cost) costs?.close(cost);
    if ("value" in outcome) {
      this.#changed.add(player);
      const { reference } = change;
      if (reference !== undefined) this.#parts.used.add(idOf({ playerId: player.id, reference }));
    }
    await this.#pace.pause();
    return outcome;
  }

  #apply(turn: PlanTurn, { change, reference }: PlayerChange<unknown>): Outcome<Changed<unknown>> {
    const { player } = turn;
    const xpBefore = player.xp;
    try {
      const answer = change(turn, keyOf(this.#parts.used, player.id, reference));
      settleTurn(turn, xpBefore);
      return { value: { value: answer(), player } };
    } catch (error) {
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

/** `id`: the UUID, or `ext:` and the integrator's id where a request names the player. */
export type PlayerKey = { projectId: string; id: string };

/** Players whose rows a request of this transaction has for itself. */
const OWNED = localKey("owned players", () => new Set<string>());

/** Whether a request of this transaction has locked the player by `lockPlayerRow`. */
export const isOwned = (work: Work, playerId: string): boolean => work.local.get(OWNED).has(playerId);

const lockOne = async (work: Work, keys: readonly PlayerKey[]): Promise<Outcome<PlayerKey>[]> => {
  const { projectId } = keys[0]!;
  await planOf(work, projectId);
  const locked = await lockRefs(
    work,
    projectId,
    keys.map(({ id }) => id),
  );
  const owned = work.local.get(OWNED);
  return keys.map(({ id }) => {
    const found = locked.get(id)!;
    if ("error" in found) return found;
    const { player } = found;
    if (work.isShared && owned.has(player.id))
      return { error: new Apart("NEXT", "another request has the player") };
    owned.add(player.id);
    return { value: { projectId, id: player.id } };
  });
};

/**
 * Locks a player, or its merge target, in the lock order of batches: the project's definitions first, to
 * avoid deadlocks with a change of them. No other request of the transaction locks the same player.
 * @throws DomainError NOT_FOUND
 */
export const lockPlayerRow = together({ phase: "LOCKS", isWrite: false, run: lockOne });

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

/**
 * Changes many players in one batch: whatever `change` throws rolls everything back. Unknown ids are ignored;
 * ids of merged players stand for the player that they were merged into, which is changed once. `change` is
 * called again for a player for whom it is the first to ask for a counter.
 */
export const changePlayers = async <T>(
  outer: Work,
  projectId: string,
  playerIds: readonly string[],
  change: (turn: PlanTurn) => T,
): Promise<Changed<T>[]> => {
  const plan = await findPlan(outer, projectId);
  const players = [...new Set((await lockPlayersById(outer, projectId, playerIds)).values())];
  if (!plan || players.length === 0) return [];
  const work = atProjectTime(outer, plan);
  // Includes the state of archived definitions: a hold can still be settled after its currency is archived.
  await loadStates(work, players, [plan], [...PLAYER_PARTS]);
  const shared = createSharedCounters("ASKED");
  const turns = new Turns({ work, plan, shared, used: new Set(), costs: new ChangeCost() });
  const changed: Changed<T>[] = [];
  const forTurns: PlayerChange<T>["change"] = (turn) => {
    const value = change(turn);
    return () => value;
  };
  for (const player of players) {
    const outcome = await turns.run({ projectId, player: player.id, change: forTurns }, player);
    if ("error" in outcome) throw outcome.error;
    changed.push(outcome.value as Changed<T>);
  }
  await turns.save();
  return changed;
};
