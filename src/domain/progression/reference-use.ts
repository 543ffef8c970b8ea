import { hash } from "node:crypto";
import { sql } from "kysely";
import { conflict, type DomainError } from "../kernel/errors.ts";
import { newId } from "../kernel/ids.ts";
import type { Work } from "../kernel/work.ts";

/** A reference that a change of a player is requested under. */
export type ReferenceUse = { playerId: string; reference: string };

/**
 * Returns the ledger key of a change requested under a reference, such as an order number. Keys are part of
 * the hash chain and stay when a player is erased, so the text, which may be personal data, is hashed.
 */
export const referenceKey = (reference: string): string => `api:ref:${hash("sha256", reference, "hex")}`;

const referenceUsed = (reference: string): DomainError =>
  conflict("REFERENCE_USED", `reference ${reference} was used for this player before`);

/** References of the changes of one transaction. */
export type References = {
  /**
   * Returns the ledger key of a change. A reference can be used once per player, for any purpose.
   * @throws DomainError CONFLICT REFERENCE_USED
   */
  keyOf(playerId: string, reference: string | undefined): string;
  /** Notes that a change under the reference was made. */
  use(playerId: string, reference: string | undefined): void;
};

const idOf = (playerId: string, reference: string): string => `${playerId} ${reference}`;

const referencesOf = (used: Set<string>): References => ({
  keyOf: (playerId, reference) => {
    if (reference === undefined) return `api:${newId()}`;
    if (used.has(idOf(playerId, reference))) throw referenceUsed(reference);
    return referenceKey(reference);
  },
  use: (playerId, reference) => {
    if (reference !== undefined) used.add(idOf(playerId, reference));
  },
});

/** For changes without references. */
export const noReferences = (): References => referencesOf(new Set());

/** Reads which references the players have used already; the players are locked. One statement. */
export const openReferences = async (
  work: Work,
  projectId: string,
  uses: readonly ReferenceUse[],
): Promise<References> => {
  const used = await readUsed(work, projectId, uses);
  return referencesOf(new Set(used.map(({ playerId, reference }) => idOf(playerId, reference))));
};

/**
 * Returns those uses of which the player, or one merged into it, has a ledger line or hold already. The
 * result only holds while the players are locked.
 */
const readUsed = async (
  { db }: Work,
  projectId: string,
  uses: readonly ReferenceUse[],
): Promise<ReferenceUse[]> => {
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
  return found.rows.map(({ n }) => uses[n]!);
};
