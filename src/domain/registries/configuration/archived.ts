import { sql } from "kysely";
import type { Defined } from "../../evaluation/live.ts";
import { createSizedCache } from "../../kernel/sized-cache.ts";
import type { Work } from "../../kernel/work.ts";

type Name = { kind: string; key: string };

/** A definition that does not run, archived or never published: it does when a document names it. */
export type Archived = Name & { id: string; version: number };

/** Documents that are read in one statement, at most, in JSON; one at least. */
const PIECE = { items: 100, bytes: 512 * 1024 };
/** Documents that are held: one whose references do not exist yet is asked for again. */
const HELD = { items: 1_000, bytes: 2 * 1024 * 1024 };

const nameOf = ({ kind, key }: Name): string => `${kind} ${key}`;

/** The archived definitions of a project that an import names; their documents are read when asked for. */
export class ArchivedDefinitions {
  readonly #work: Work;
  readonly #projectId: string;
  readonly #byName: ReadonlyMap<string, Archived>;
  /** In the order in which they are likely to be asked for. */
  readonly #pending: Map<string, Archived>;
  readonly #held = createSizedCache<Defined>(HELD);

  constructor(work: Work, projectId: string, found: readonly Archived[]) {
    this.#work = work;
    this.#projectId = projectId;
    this.#byName = new Map(found.map((one) => [nameOf(one), one]));
    this.#pending = new Map(this.#byName);
  }

  find(name: Name): Archived | undefined {
    return this.#byName.get(nameOf(name));
  }

  /** Returns the document of a definition, which is read with some of those that follow. */
  async documentOf(one: Archived): Promise<Defined> {
    const name = nameOf(one);
    const held = this.#held.get(name);
    if (held) return held;
    const piece = [one];
    for (const [other, next] of this.#pending) {
      if (piece.length === PIECE.items) break;
      if (other !== name) piece.push(next);
    }
    const documents = await this.#read(piece);
    for (const { definition, bytes, ...of } of documents.toReversed())
      this.#held.keep(nameOf(of), definition, { owner: "", bytes });
    return documents[0]!.definition;
  }

  /** To be called when a definition was restored: its document is not asked for again. */
  done(one: Archived): void {
    this.#pending.delete(nameOf(one));
    this.#held.drop(nameOf(one));
  }

  async #read(piece: readonly Archived[]): Promise<(Name & { definition: Defined; bytes: number })[]> {
    const ids = JSON.stringify(piece.map(({ id }, place) => ({ id, place })));
    const { rows } = await sql<Name & { definition: Defined; bytes: number }>`
      select kind, key, definition, bytes from (
        select d.kind, d.key, d.definition, d.bytes, r.place,
          sum(d.bytes) over (order by r.place) as upto
        from json_to_recordset(${ids}::json) as r(id uuid, place int)
        join definitions d on d.id = r.id and d.project_id = ${this.#projectId}) those
      where place = 0 or upto <= ${PIECE.bytes} order by place`.execute(this.#work.db);
    return rows;
  }
}

/**
 * Finds which of these names are those of archived definitions, in the order of the names.
 * @returns them, and the number of all archived definitions by kind
 */
export const findArchived = async (
  work: Work,
  projectId: string,
  names: readonly Name[],
): Promise<{ archived: ArchivedDefinitions; counts: ReadonlyMap<string, number> }> => {
  const wanted = JSON.stringify(names.map(({ kind, key }, place) => ({ kind, key, place })));
  const { rows } = await sql<{ kind: string; n: string | number; named: (Archived & { place: number })[] }>`
    select d.kind, count(*) as n, coalesce(json_agg(json_build_object('kind', d.kind, 'key', d.key,
      'id', d.id, 'version', d.version, 'place', r.place)) filter (where r.place is not null), '[]') as named
    from definitions d
    left join json_to_recordset(${wanted}::json) as r(kind text, key text, place int)
      on r.kind = d.kind and r.key = d.key
    where d.project_id = ${projectId} and d.status <> 'ACTIVE' group by d.kind`.execute(work.db);
  const named = rows.flatMap((one) => one.named).toSorted((a, b) => a.place - b.place);
  const counts = new Map(rows.map(({ kind, n }) => [kind, Number(n)]));
  return { archived: new ArchivedDefinitions(work, projectId, named), counts };
};
