import type { Work } from "../../kernel/work.ts";
import type { Stored } from "../../evaluation/live.ts";
import { loadDefinitions } from "../../progression/load-definitions.ts";

/** The definitions of a project that are not archived, found by kind and key. */
export class Catalogue {
  readonly #byKind = new Map<string, Map<string, Stored>>();

  constructor(definitions: ReadonlyMap<string, readonly Stored[]>) {
    for (const [kind, ofKind] of definitions) for (const stored of ofKind) this.put(kind, stored);
  }

  get(kind: string, key: string): Stored | undefined {
    return this.#byKind.get(kind)?.get(key);
  }

  /** Adds a definition, or replaces the one with its key. */
  put(kind: string, stored: Stored): void {
    const ofKind = this.#byKind.get(kind) ?? new Map<string, Stored>();
    this.#byKind.set(kind, ofKind);
    ofKind.set(stored.definition.key, stored);
  }

  all(kind: string): Stored[] {
    return [...(this.#byKind.get(kind)?.values() ?? [])];
  }

  /** All definitions by kind, as `loadDefinitions` answers them. */
  byKind(): Map<string, Stored[]> {
    return new Map([...this.#byKind.keys()].map((kind) => [kind, this.all(kind)]));
  }
}

const held = new WeakMap<Work["em"], Map<string, Catalogue>>();

export const loadCatalogue = async (work: Work, projectId: string): Promise<Catalogue> =>
  new Catalogue(await loadDefinitions(work, projectId));

/**
 * Reads a project's definitions once for all checks of a transaction that changes many of them. Call it under
 * the exclusive config lock. From then on the caller puts each change into the catalogue: checks read that
 * and not the tables.
 */
export const holdCatalogue = async (work: Work, projectId: string): Promise<Catalogue> => {
  const catalogue = await loadCatalogue(work, projectId);
  const ofWork = held.get(work.em) ?? new Map<string, Catalogue>();
  held.set(work.em, ofWork.set(projectId, catalogue));
  return catalogue;
};

/** The catalogue that this transaction holds; undefined when it reads the tables. */
export const heldCatalogue = ({ em }: Work, projectId: string): Catalogue | undefined =>
  held.get(em)?.get(projectId);

/** Lets checks read the tables again. */
export const releaseCatalogue = ({ em }: Work, projectId: string): void =>
  void held.get(em)?.delete(projectId);
